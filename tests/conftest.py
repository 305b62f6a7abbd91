"""Fixtures and rules of the whole suite."""
