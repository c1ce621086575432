"""What the files of an ensemble tell about groups, brokers and the ensemble; Spark is in `spark` only."""
