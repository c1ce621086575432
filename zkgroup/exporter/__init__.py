"""The exporter: reads a whole ensemble once an interval, and serves what it found to Prometheus and people.

`cluster` and `group_cache` read, `reading` puts the parts together, `metrics` serves them, and
`exporter` runs it all. `alerts` and `board` are for Prometheus and Grafana, and read nothing.
"""
