"""Histories as people ask for them, from the same rows as the findings."""
