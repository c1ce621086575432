"""The group coordinator of a broker, around `zkgroup.coordinator`.

`store` keeps groups and offsets in ZooKeeper, as a pure machine (slots, groups and commits: recipes 20-23);
`store_events` has its events and effects.
"""
