"""A real day: a zkgroup group under faults on real servers, audited from the files of these servers.

`python -m tests.programs.real_day` runs one for half an hour; the audit's rows, the checker of the group and
the members' own records must agree about it.
"""
