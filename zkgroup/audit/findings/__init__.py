"""Findings: rules (a module a theme, listed in `engine`), the tables that they read, and the engine."""
