"""Chaos on real servers with real brokers: `python -m tests.programs.chaos --help`."""
