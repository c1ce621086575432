"""Kafka's requests and responses as bytes, in both directions. Pure.

A message is one frozen dataclass, and its fields' types say how they lie in the bytes: there is no second
description, and no encoder or decoder written by hand. What is decoded is refused unless it is understood
to its last byte (`CorruptFrameError` with offset, field, expected and found), except that bytes behind a
request are ignored; no length that a peer claims is believed before the bytes are there.

* `schema`: the types of fields, read off a class; `codec` makes writers
  and readers of them out of those of single values in `primitives`
* `messages`: error codes, headers and whole frames; `requests`: which request a frame holds
* `control`: what a controller and its brokers say to each other
* `metadata`: what clients ask any broker; `records`: what they ask the leader of a partition
* `admin_apis`: what tools ask to change; `groups`: what members and tools ask a coordinator
* `users`: who may log in by SCRAM; `sasl`: logins; `quotas`: the quotas of users, clients and addresses
* `record_batch`: batches of records, checked, stamped and read; their checksum is `crc32c`
* `client`: the client's end of a connection
"""
