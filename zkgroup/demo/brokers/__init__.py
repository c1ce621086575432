"""`zkgroup demo brokers`: four brokers host lines; they are killed, emptied, and nothing is lost."""
