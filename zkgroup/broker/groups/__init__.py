"""The group coordinator of a broker: what surrounds `zkgroup.coordinator`.

`store` keeps groups and offsets in ZooKeeper, as a pure machine (recipes 20-23); `store_events` is what it
takes and gives.
"""
