"""Conformance checks of a `Store`: the contract that every implementation must fulfil.

Each check is a function of a `Target`: it opens the clients it needs and raises AssertionError. Run them
under any test runner, one empty tree each:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_store(check):
        with Target(my_open_store) as target:
            check(target)

`ACL_CHECKS` are checks of an `AclTarget`, for implementations that have ACLs.
"""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.testing.conformance import acls, reads, sessions, transactions
from zkgroup.testing.conformance.target import AclTarget, Caller, Target

CHECKS: tuple[Callable[[Target], None], ...] = tuple(
    function
    for module in (transactions, reads, sessions)
    for name, function in vars(module).items()
    if name.startswith("check_")
)
"""Every check of a `Target`."""

ACL_CHECKS: tuple[Callable[[AclTarget], None], ...] = tuple(
    function for name, function in vars(acls).items() if name.startswith("check_")
)
"""Every check of an `AclTarget`."""

__all__ = ["ACL_CHECKS", "CHECKS", "AclTarget", "Caller", "Target"]
