"""Incidents: findings brought together by what caused them. Pure; docs/incidents.md has the rule."""
