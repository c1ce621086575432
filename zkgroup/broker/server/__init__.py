"""The port of a broker: its connections, their requests and the answers.

* `server`: `BrokerServer` listens, `Connection` reads requests and sends answers
* `handlers`: `ApiTable`, the served APIs with their requests and handlers; `RequestContext`; `Later`
* `apis`: `BrokerApis`, the table of a broker; `access_log`: log lines of refusals and of changes
* `control_requests`: what LeaderAndIsr, StopReplica and UpdateMetadata do; `control_queue`: one at a time
* `metadata_cache`: the metadata of the last UpdateMetadata; `metadata_requests` answers clients with it,
  FindCoordinator too
* `produce_requests`: Produce and InitProducerId; `offset_requests`: ListOffsets, OffsetForLeaderEpoch and
  DeleteRecords
* `fetch_requests`: Fetch, and when its answer is complete; `fetch_sessions`: the sessions of followers;
  `fetch_handler`: the waits
"""
