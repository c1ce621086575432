"""Fuzz targets for the readers of files: `python -m tests.programs.fuzz TARGET --seconds N`."""
