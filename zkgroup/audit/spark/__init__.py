"""The audit in Spark: ZooKeeper's files as data sources, their conversion to Parquet, and the findings.

The only package that imports pyspark. `sources.register(spark)` makes the data sources known to a session,
`session` opens one, `job` is what `zkgroup audit run` does. Spark schedules tasks: a task decodes a log
(`decoding`), or runs the rules on a bucket (`evaluation`), by the functions of the audit in one process.
"""
