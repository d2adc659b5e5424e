"""Slow, obvious twins of what the packages do fast."""
