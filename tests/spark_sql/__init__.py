"""The test queries of Spark's own SQL suite, with the answers that Spark recorded."""
