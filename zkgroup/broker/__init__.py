"""A broker's life.

* `replica_host`: the port behind which the lines of partitions live
"""
