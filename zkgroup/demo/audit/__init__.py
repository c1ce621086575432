"""`zkgroup demo audit`: somebody writes over offsets of the demo's group, and the servers' files tell who."""
