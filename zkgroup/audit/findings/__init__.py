"""The findings, one module each."""
