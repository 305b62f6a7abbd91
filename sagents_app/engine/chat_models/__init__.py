"""Chat models: each provider in a folder of its own, and models for tests."""
