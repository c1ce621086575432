"""The runtime of zkgroup's machines: members, brokers and controllers.

A machine is pure: `step(event, now) -> effects`. This package has the parts that all machines share: effects
and events about ZooKeeper and time (`events`), procedures (recipes as generators), the runner that drives one
at a time and the context of a machine (`procedures`), the base of the machines of brokers and controllers,
with many procedures at once (`machine`), and the loop with the thread that owns a machine (`loop`).
"""
