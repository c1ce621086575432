"""Who gets in and who may do what: listeners, credentials, access control lists, and their settings.

Modules here import only the floor, so brokers, clients and the command line share them. Secrets are in no
text that these classes print, and in no error.

* `acls`: access control lists as Kafka has them, and what they allow
* `properties`: Java's properties files
* `listeners`: where a broker listens, and by which protocol
* `secret`: `Secret`, a text that is never printed; `secret_files`: who may read and write a file of secrets
* `scram`: SCRAM credentials as Kafka stores them in `/config/users/<user>`
* `passwords`: hashed passwords, one user a line, for PLAIN
* `sasl`: the broker's side of a login; `oauth`: logins by tokens; `sasl_settings`: the logins of a listener
* `jaas`: the text in which Kafka names user and password
* `tls`: PEM files as contexts of Python's `ssl`
* `certificates`: a broker's certificate, checked before clients do it
* `principals`: the name of a client by its certificate
* `client`: `ClientSecurity`, how a client reaches brokers and logs in
"""

from zkgroup.security.client import ClientSecurity
from zkgroup.security.tls import TlsSettings

__all__ = ["ClientSecurity", "TlsSettings"]
