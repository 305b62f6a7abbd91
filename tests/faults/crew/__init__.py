"""Agents for the tests of lost, frozen and drained workers."""
