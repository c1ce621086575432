"""What the active controller sends to brokers: LeaderAndIsr, UpdateMetadata and StopReplica, in order."""
