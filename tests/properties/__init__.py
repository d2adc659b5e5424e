"""Random schemas, queries and change streams, against the oracle."""
