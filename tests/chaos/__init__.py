"""Chaos on real servers with real brokers: `python -m tests.chaos --help`; a short round is a test."""
