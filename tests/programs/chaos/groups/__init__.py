"""Chaos under groups: their coordinators are killed and paused, and what their members saw is judged."""
