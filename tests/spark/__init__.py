"""Tests that need a real Spark session."""
