"""The elected controller of a cluster: leaders, in-sync replicas, reassignments, deletions.

`machine` decides and is pure.
"""
