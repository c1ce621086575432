"""Test doubles and checks that ship with zkgroup, for its own tests and for those of its users.

Nothing in zkgroup imports this package. Names are loaded when first used: the pytest plugin lives here
and must cost nothing in a run that does not need it.
"""

from zkgroup.exports import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
