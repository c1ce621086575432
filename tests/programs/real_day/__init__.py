"""A real day: a group of ours under faults on real servers, audited from the files that these wrote.

`python -m tests.programs.real_day` runs one for half an hour; the audit's rows, the checker of the group and
what the members recorded themselves must agree about it.
"""
