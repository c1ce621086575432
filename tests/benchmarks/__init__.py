"""Measurements against the peers, side by side in one run: `python -m tests.benchmarks --help`."""
