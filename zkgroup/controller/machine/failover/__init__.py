"""The active controller's handling of a takeover, and of changed brokers, topics and notifications."""
