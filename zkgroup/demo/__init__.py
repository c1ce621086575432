"""What `zkgroup demo` runs: real records, processes that are killed, and the proof that nothing was lost."""
