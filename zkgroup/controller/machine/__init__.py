"""What a controller decides, as pure functions and values: no connection, no clock, no log.

`context` is what is known; `selectors`, `balance`, `moving` and `deleting` decide on it; `transitions` says
what may follow what; `fence` and the `*_writes` modules make the transactions, `requests` and `outbox` what
brokers are told. Sources: controller.md sections 2-7 and recipes 13-18 in docs/protocol, each named
where it is used.
"""
