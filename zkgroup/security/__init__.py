"""Who a client is: credentials, SASL exchanges, and the settings that name them.

Modules here import only the floor, so brokers, clients and the command line share them. Secrets are in no
text that these classes print, and in no error.

* `scram`: SCRAM credentials as Kafka stores them in `/config/users/<user>`
* `passwords`: hashed passwords, one user a line, for PLAIN
"""
