"""Committed offsets: planned changes, their transactions, files of offsets."""
