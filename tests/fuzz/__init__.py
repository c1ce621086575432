"""Fuzz targets for the readers of files: `python -m tests.fuzz TARGET --seconds N` (needs atheris)."""
