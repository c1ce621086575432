"""The demos of `zkgroup demo`: real records, killed processes, and the proof that no record was lost."""
