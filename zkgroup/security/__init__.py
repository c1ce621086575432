"""Who gets in: listeners, credentials, SASL exchanges, and the settings that name them.

Modules here import only the floor, so brokers, clients and the command line share them. Secrets are in no
text that these classes print, and in no error.

* `properties`: Java's properties files
* `listeners`: where a broker listens, and by which protocol
* `secret`: `Secret`, a text that is never printed
* `properties`: Java's properties files
* `listeners`: where a broker listens, and by which protocol
* `scram`: SCRAM credentials as Kafka stores them in `/config/users/<user>`
* `passwords`: hashed passwords, one user a line, for PLAIN
* `sasl`: the broker's side of a login; `sasl_settings`: which logins a listener offers
* `jaas`: the text in which Kafka names user and password
* `tls`: PEM files as contexts of Python's `ssl`
* `client`: `ClientSecurity`, how a client reaches brokers and logs in
"""

from zkgroup.security.client import ClientSecurity
from zkgroup.security.tls import TlsSettings

__all__ = ["ClientSecurity", "TlsSettings"]
