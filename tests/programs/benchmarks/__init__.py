"""Measurements of zkgroup beside its peers, in one run: `python -m tests.programs.benchmarks --help`."""
