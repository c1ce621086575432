"""The port of a broker: its connections, their requests and the answers.

* `server`: `BrokerServer` listens, `Connection` reads requests and sends answers
* `apis`: `BrokerApis` answers each request, `LineRequests` decides AppendLines and FetchLines
* `control_requests`: LeaderAndIsr, StopReplica and UpdateMetadata, one at a time
* `metadata_cache`: the metadata of the last UpdateMetadata, for clients
"""
