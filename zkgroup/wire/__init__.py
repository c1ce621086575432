"""Kafka's requests and responses as bytes, in both directions. Pure.

A message is one frozen dataclass, and its fields' types say how they lie in the bytes: there is no second
description, and no encoder or decoder written by hand. What is decoded is refused unless it is understood
to its last byte (`CorruptFrameError` with offset, field, expected and found); no length that a peer claims
is believed before the bytes are there.

* `schema`: the types of fields, read off a class; `codec` makes writers
  and readers of them
* `messages`: headers and whole frames; `requests`: which request a frame holds
* `splitter`: frames out of a stream of bytes
* `control`: what a controller and its brokers say to each other
* `metadata`: what clients ask any broker; `records`: what they ask the leader of a partition
* `replica_host`: the requests for lines, and their batches, whose checksum is `crc32c`
* `error_codes`: the numbers in responses
"""
