"""A `Target` whose clients authenticate, create with ACLs and may set them."""

from __future__ import annotations

from typing import Protocol

from zkgroup.model.ports import Store
from zkgroup.model.requests import Code
from zkgroup.testing.conformance.target import UNHURRIED_MS, Caller, Target
from zkgroup.zookeeper.settings import OPEN_ACL, Acl, Digest


class OpenAs(Protocol):
    """Opens a client on the tree; `auth` and `acl` as in `ClientSettings`."""

    def __call__(self, session_timeout_ms: int, auth: Digest | None, acl: tuple[Acl, ...]) -> Store: ...


class SetAcl(Protocol):
    """Sets the ACL of a znode, which no `Store` does, as who authenticates so. Says why it was refused."""

    def __call__(self, path: str, acl: tuple[Acl, ...], version: int, auth: Digest | None) -> Code | None: ...


class AclTarget(Target):
    """The implementation under test."""

    def __init__(self, open_as: OpenAs, set_acl: SetAcl) -> None:
        super().__init__(lambda session_timeout_ms: open_as(session_timeout_ms, None, OPEN_ACL))
        self._open_as = open_as
        self._set_acl = set_acl

    def connect_as(self, auth: Digest | None = None, *acl: Acl) -> Caller:
        """A new client, connected, whose creates carry this ACL, the open one where none is given."""
        store = self._open_as(UNHURRIED_MS, auth, acl or OPEN_ACL)
        self._stores.append(store)
        caller = Caller(store)
        caller.session()
        return caller

    def set_acl(self, path: str, *acl: Acl, version: int = -1, auth: Digest | None = None) -> Code | None:
        return self._set_acl(path, acl, version, auth)
