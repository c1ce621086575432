"""`zkgroup demo brokers`: four brokers host lines; brokers are killed, and no line is lost."""
