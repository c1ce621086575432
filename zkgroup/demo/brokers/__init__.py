"""`zkgroup demo brokers`: four brokers host records; brokers are killed, and no record is lost."""
