"""Deletion of topics, and the replicas that brokers keep of deleted topics or ended reassignments."""
