"""Findings: rules (a module a theme, listed in `all_rules`), their tables, and what asks them of rows."""
