"""Findings: rules (a module a theme, listed in `engine`), their tables, and what asks them of rows."""
