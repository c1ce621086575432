"""`zkgroup demo audit`: offsets are overwritten, and the servers' files show by which session."""
