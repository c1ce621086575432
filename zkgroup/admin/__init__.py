"""What an operator reads and asks for: one-shot acts behind the command line.

A read takes a *picture* of a group in a few bulk reads; everything said about the group is a pure
function of that picture. A write is planned first (a value that can be shown), then carried out in
transactions that check the plan's preconditions. Nothing here keeps state between two calls.

This package knows ZooKeeper through `zkgroup.zookeeper.blocking.Blocking`, over any `Store`.
"""
