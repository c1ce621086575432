"""A history in buckets: all rows of a group in one, so that each is audited alone.

`known_rows` and `spanning` name what must be seen of all buckets together. Two schedulers use these
functions: `bounded` asks one bucket after the other in this process, `audit.spark` gives each to a task.
"""
