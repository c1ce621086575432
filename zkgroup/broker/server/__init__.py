"""The port of a broker: connections, the requests that they bring, and what is answered to them.

* `server`: `BrokerServer` listens, a `Connection` takes frames in and sends answers
* `apis`: `BrokerApis` finds the answer to each request, and `LineRequests` those for lines
* `control_requests`: LeaderAndIsr, StopReplica and UpdateMetadata, one at a time
* `metadata_cache`: what UpdateMetadata said, for clients that ask
"""
