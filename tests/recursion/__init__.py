"""Recursive views against a twin that computes every round anew: random bodies × random graphs."""
