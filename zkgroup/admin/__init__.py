"""Reads and changes of an operator, behind the public `zkgroup.Admin` and the command line.

A read takes a snapshot in a few bulk reads; everything reported about it is a pure function of that snapshot.
A change is planned first (a value that can be shown), then applied in transactions that check the plan's
preconditions. Nothing here keeps state between two calls.

The names of `__all__` are public: the types that a program passes to methods of `Admin`, and those of their
results that it may want to name. They are loaded when first used. The modules of this package are internal.

This package reaches ZooKeeper through `zkgroup.zookeeper.blocking.Blocking`, over any `Store`.
"""

from zkgroup.exports import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
