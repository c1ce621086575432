"""The pure machine of a controller: it decides, without connection, clock or log.

`context` is what is known of the cluster. `selectors`, `steps` and `decision` decide on it. `state_machines`
says which phase may follow which. `fenced_writes` and the `transactions` modules build the transactions,
`requests` builds what is sent to brokers. Sources: controller.md sections 2-7 and recipes 13-18 in
docs/protocol, each named where it is used.
"""
