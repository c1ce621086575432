"""`zkgroup demo coordinator`: Kafka's clients share a group; its coordinator and two clients fail."""
