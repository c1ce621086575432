"""Leaders and in-sync replicas: who leads a partition, for which reason, and the writes that make it so."""
