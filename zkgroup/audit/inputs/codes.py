"""The numbers that stand for operations and lifetimes in columns; needs neither numpy nor pyarrow."""

from __future__ import annotations

from typing import Final

OPS: Final = ("create", "delete", "set", "setACL", "check", "createSession", "closeSession", "error")
CREATE, DELETE, SET, SET_ACL, CHECK, CREATE_SESSION, CLOSE_SESSION, ERROR = range(8)
LIFETIMES: Final = (None, "session", "container", "ttl")
OF_SESSION: Final = 1
"""The code of an ephemeral."""
