"""The row on which every finding stands: one change, in the order of zxid and place in its multi.

On a laptop rows come from `zkgroup.zkfiles`, in Spark from Parquet; findings are the same.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from zkgroup.zkfiles.records import Acl

Op = Literal["create", "delete", "set", "setACL", "check", "createSession", "closeSession", "error"]
Lifetime = Literal["session", "container", "ttl"]

SINGLE = -1
"""`sub` of an operation that stood alone, and of a seed."""


class Event(NamedTuple):
    """One operation. Multis and session closes are opened; a failed multi's rows are there, not applied.

    A history begins with seeds: each znode of the snapshot it starts from, as a create at its czxid with the
    data and version that the snapshot has; and each of its sessions, as a createSession at zxid 0.
    """

    zxid: int
    sub: int
    """Place in its multi or close, from 0; -1 for an operation that stood alone, and for seeds."""
    time_ms: int
    """The leader's clock, since 1970. For durations only: it can step back."""
    session: int
    """Names who did it. A seed has its ephemeralOwner, or 0: a snapshot does not say who wrote."""
    cxid: int
    """0 where a closeSession is an expiry, and for rows that came of it."""
    op: Op
    path: str
    """Empty where there is none: sessions, and single requests that failed."""
    data: bytes | None = None
    version: int | None = None
    ephemeral: Lifetime | None = None
    timeout_ms: int | None = None
    error: int | None = None
    applied: bool = True
    seed: bool = False
    synthetic: bool = False
    """A deletion that no record names: an ephemeral that went with its session, before 3.6."""
    acl: Acl | None = None
    """create and setACL. None in a seed whose ACL the snapshot lacks, or where ACLs were not read."""
    mtime_ms: int | None = None
    """A seed: when its data was last written; `time_ms` is when it was created."""
