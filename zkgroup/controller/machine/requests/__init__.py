"""The requests of the active controller: LeaderAndIsr, UpdateMetadata and StopReplica, in order."""
