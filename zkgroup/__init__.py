"""The ZooKeeper-era Kafka coordination layer: embed it, operate it, audit it.

These names are public, all others are internal. Those of `zkgroup`, `zkgroup.admin`, `zkgroup.broker`,
`zkgroup.metrics` and `zkgroup.testing` are loaded when first used: importing these does no work and loads no
connection code.

| module | public names |
| --- | --- |
| `zkgroup`, `zkgroup.admin`, `zkgroup.broker`, `zkgroup.sources`, `zkgroup.zookeeper` | their `__all__` |
| `zkgroup.errors`, `zkgroup.history`, `zkgroup.metrics`, `zkgroup.model` | their `__all__` |
| `zkgroup.placement`, `zkgroup.security` | their `__all__` |
| `zkgroup.testing`, `zkgroup.testing.conformance` | their `__all__` |
| `zkgroup.zookeeper.embedded` | `EmbeddedZooKeeper` |
| `zkgroup.audit.spark.sources` | `register` |
"""

from zkgroup import version as _version
from zkgroup.exports import lazy

__version__ = _version.VERSION

__getattr__, __dir__, __all__ = lazy(__name__, "__version__")
