"""Measurements against the peers, side by side in one run: `python -m tests.programs.benchmarks --help`."""
