"""The group coordinator: members, generations and the rules of commits. Pure (docs/adr/0036).

    coordinator        takes `events` and gives `effects`; has the slots that it leads, with their groups
    context            what its parts share: time, effects, timers, writes in flight
    group_ids          which ids a group can have, and the slot of each
    group              a group and its members; `records` as they are stored, `descriptions` as tools see them
    join_group         JoinGroup; `membership` SyncGroup, Heartbeat and LeaveGroup
    offsets            OffsetCommit, OffsetFetch and OffsetDelete
    rebalance          the phases of a rebalance
    retention          which topics are in use, which offsets have expired, which groups are over

Names and rules: kafka/coordinator/group/*.scala@2.8.2.
"""
