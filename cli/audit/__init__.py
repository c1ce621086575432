"""`zkgroup audit`: what the files of an ensemble, an export or a living ensemble tell."""
