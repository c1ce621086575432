"""What `zkgroup demo` runs: real records, killed processes, and the proof that no record was lost."""
