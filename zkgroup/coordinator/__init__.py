"""The group coordinator: members, generations and the rules of commits. Pure (docs/adr/0036).

`coordinator` takes events and gives effects. `group` has the group and its members; `join_group`,
`sync_group`, `membership` and `offsets` the requests; `rebalance` the phases of a rebalance; `retention` the
offsets that expire.
Names and rules: kafka/coordinator/group/*.scala@2.8.2.
"""
