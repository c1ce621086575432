"""The group coordinator: members, generations and the rules of commits. Pure (docs/adr/0036).

    coordinator        takes `events` and gives `effects`; `slots` has what it leads, with the groups
    context            what its parts share: time, effects, writes in flight; `timers` as data
    group_ids          which ids a group can have
    group              a group and its members; `records` as they are stored, `descriptions` as tools see them
    join_group         JoinGroup; `sync_group` SyncGroup, `membership` Heartbeat and LeaveGroup
    offsets            OffsetCommit, OffsetFetch and OffsetDelete; `subscriptions` says which are in use
    rebalance          the phases of a rebalance
    retention          which offsets have expired, and which groups are over
    outcomes           which error code an outcome of a write becomes

Names and rules: kafka/coordinator/group/*.scala@2.8.2.
"""
