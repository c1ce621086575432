"""What `zkgroup demo` runs: real records, real processes, one killed, and the proof that nothing was lost."""
