"""Reads and changes of an operator, behind the public `zkgroup.Admin` and the command line.

A read takes a snapshot in a few bulk reads; everything reported about it is a pure function of that snapshot.
A change is planned first (a value that can be shown), then applied in transactions that check the plan's
preconditions. Nothing here keeps state between two calls.

This package reaches ZooKeeper through `zkgroup.zookeeper.blocking.Blocking`, over any `Store`.
"""
