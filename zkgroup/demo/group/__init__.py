"""`zkgroup demo group`: three members share partitions, one is killed, another joins."""
