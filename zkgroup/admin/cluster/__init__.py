"""The cluster: its brokers and controller, its state, what it costs the ensemble."""
