"""Znodes: one frozen dataclass for each, with its path, `encode` and `decode`. Pure.

`encode` is strict: it checks the data with the rules of the strictest reader. `decode` accepts unknown keys;
missing and mistyped ones raise `CorruptZnodeError` with the path, what was expected and what was found.

* `ids`: names of groups, topics, members and threads; sequential znodes; lists of partitions
* `consumers`: Kafka's znodes below `/consumers`: registrations, owners, offsets
* `group_records`: zkgroup's own records of a group: resets, assignments, views, audit
* `group_history`: the rebalances of a group, as members and coordinators keep them
* `brokers`: broker registrations, topics, partition states
* `config`, `config_settings`: configurations below `/config`, and the settings they may hold
* `acls`: Kafka's access control lists, and the notifications of their changes
* `notifications`: changed configurations, changed ISRs, failed log directories
* `admin_requests`: reassignments, elections and deletions requested below `/admin`, and unclean elections
* `controller`: `/controller`, its epoch, and zkgroup's history, status and standby controllers
* `reassignment_records`, `stray_replicas` (and unhosted topics): zkgroup's records below `/zkgroup`
* `cluster`: cluster id, generated broker ids, features, producer ids; the parents that a broker creates
* `paths`: the group, topic or broker that a path belongs to
* `access`: which paths a closed cluster closes, hides and leaves open
* `sessions`: which paths belong to a session, and what follows where none holds one
* `json_fields`: JSON of any Kafka version, limits of what may be written, and JSON as Kafka 0.8's Scala
  parser reads it
"""
