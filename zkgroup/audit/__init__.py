"""Says what the files of an ensemble show about groups, brokers and the ensemble; Spark is in `spark`
only."""
