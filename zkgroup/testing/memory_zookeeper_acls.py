"""ACLs as a server checks them (ZooKeeperServer.checkACL, PrepRequestProcessor.fixupACL@3.9.5).

Pure. Schemes: `world`, `auth`, `digest` and `ip`. An ACL that is open to everybody is None here, so that a
check of it costs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from zkgroup.model.stat import AclEntry
from zkgroup.zookeeper.settings import OPEN_ACL, Acl, Digest

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
"""Bits of `AclEntry.perms` (ZooDefs.Perms)."""

Entries = tuple[AclEntry, ...]
Identity = tuple[str, str]
"""Scheme and id."""

OPEN: Final[Entries] = (AclEntry(31, "world", "anyone"),)
READ_ONLY: Final[Entries] = (AclEntry(READ, "world", "anyone"),)

_SUPER: Final = ("super", "")
_ANYONE: Final = ("world", "anyone")
_BITS = re.compile(r"\d{1,3}")


def _is_valid(scheme: str, identity: str) -> bool:
    if scheme == "world":
        return identity == "anyone"
    if scheme == "digest":
        return identity.rstrip(":").count(":") == 1  # as Java's split counts
    return scheme == "ip" and _network(identity) is not None


def _network(identity: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """An address with the number of bits that count, all when it has none."""
    _, slash, bits = identity.partition("/")
    if slash and not _BITS.fullmatch(bits):
        return None
    try:
        return ipaddress.ip_network(identity, strict=False)
    except ValueError:
        return None


def _matches(address: str, identity: str) -> bool:
    network = _network(identity)
    return network is not None and ipaddress.ip_address(address) in network


class InvalidAclError(Exception):
    """The server answers with InvalidACL."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks: what the server knows of a connection, and the ACL that its creates carry."""

    identities: tuple[Identity, ...]
    """ServerCnxn.authInfo: the address, and one more for each successful authentication."""
    acl: tuple[Acl, ...] = OPEN_ACL
    created: Entries | None = field(init=False)
    """What `acl` comes to for these identities; None where it is open."""
    is_valid: bool = field(init=False)
    """Whether the server takes `acl`."""

    def __post_init__(self) -> None:
        created, is_valid = None, True
        try:
            created = self.entries(self.acl)
        except InvalidAclError:
            is_valid = False
        object.__setattr__(self, "created", created)
        object.__setattr__(self, "is_valid", is_valid)

    def entries(self, acl: Iterable[Acl]) -> Entries | None:
        """The ACL as the server stores it, None where it is open. Raises `InvalidAclError`.

        `auth` becomes the identities that were authenticated; an address is none of them.
        """
        entries: dict[AclEntry, None] = {}
        for each in acl:
            if each.scheme == "auth":
                authenticated = [one for one in self.identities if one[0] == "digest"]
                if not authenticated:
                    raise InvalidAclError
                entries.update((AclEntry(each.mask, *one), None) for one in authenticated)
            elif _is_valid(each.scheme, each.identity):
                entries[AclEntry(each.mask, each.scheme, each.identity)] = None
            else:
                raise InvalidAclError
        if not entries:
            raise InvalidAclError
        return None if tuple(entries) == OPEN else tuple(entries)

    def may(self, perms: int, acl: Entries | None) -> bool:
        """Whether an entry of this ACL that applies to the asker has one of these permissions."""
        if acl is None or self.identities[0] == _SUPER:
            return True
        return any(entry.perms & perms and self._is_meant(entry) for entry in acl)

    def _is_meant(self, entry: AclEntry) -> bool:
        if (entry.scheme, entry.id) == _ANYONE:
            return True
        if entry.scheme == "ip":
            return any(scheme == "ip" and _matches(address, entry.id) for scheme, address in self.identities)
        return (entry.scheme, entry.id) in self.identities


SUPERUSER: Final = Credentials((_SUPER,))
"""The test itself: no ACL is against it."""


def credentials(auth: Digest | None, acl: tuple[Acl, ...], address: str = "127.0.0.1") -> Credentials:
    """Of a client at this address that authenticates so, if at all."""
    identities: tuple[Identity, ...] = (("ip", address),)
    if auth is not None:
        identities += (("digest", digest_id(auth)),)
    return Credentials(identities, acl)


def digest_id(auth: Digest) -> str:
    """`user:base64(sha1(user:password))` (DigestAuthenticationProvider.generateDigest)."""
    digest = hashlib.sha1(auth.credential.encode(), usedforsecurity=False).digest()
    return f"{auth.username}:{base64.b64encode(digest).decode()}"


def masked(acl: Entries) -> Entries:
    """What getACL shows to who has no ADMIN: no digest of a password."""
    return tuple(
        entry._replace(id=re.sub(":.*", ":x", entry.id)) if entry.scheme == "digest" else entry
        for entry in acl
    )
