"""`zkgroup group freeze` and `unfreeze`."""

from __future__ import annotations

import click

from zkgroup.admin.coordinator import live_reader
from zkgroup.admin.freezes import freeze_group_change, plan_freeze, plan_unfreeze, unfreeze_group_change

from .. import groups as shown
from ..app import command
from ..confirm import print_result, run_change
from ..context import connected
from ..param_types import SOME_TIME
from ..params import Consent, broker_options, confirm_options, group_argument


@command("freeze")
@group_argument()
@click.option("--reason", required=True, metavar="TEXT", help="Why, for those who look at the group.")
@click.option(
    "--for",
    "for_ms",
    type=SOME_TIME,
    required=True,
    metavar="DURATION",
    help="How long; then it ends by itself.",
)
@click.option("--allow-takeover", is_flag=True, help="Let members claim partitions that have no owner.")
@confirm_options
@broker_options
def freeze(group: str, reason: str, for_ms: int, allow_takeover: bool, consent: Consent) -> None:
    """Let no partition of GROUP move, but by leaving and death.

    A member that joins owns nothing, and what a member leaves has no owner, until the freeze ends: by
    `group unfreeze`, or after its time. Refused while a partition has no owner, unless others may take
    it over, and while a member does not know freezes.

    \b
    Example:
      zkgroup group freeze billing --reason "deploy 4.2" --for 10m --execute
    """
    with connected() as ensemble:
        plan = plan_freeze(
            ensemble,
            group,
            reason=reason,
            for_ms=for_ms,
            allow_takeover=allow_takeover,
            live=live_reader(ensemble),
        )
        result = run_change(freeze_group_change(ensemble, plan), shown.freeze, consent)
    print_result(shown.FREEZE, result, shown.freeze)


@command("unfreeze")
@group_argument()
@confirm_options
def unfreeze(group: str, consent: Consent) -> None:
    """End the freeze of GROUP: its partitions move again.

    \b
    Example:
      zkgroup group unfreeze billing --execute
    """
    with connected() as ensemble:
        change = unfreeze_group_change(ensemble, plan_unfreeze(ensemble, group))
        result = run_change(change, shown.unfreeze, consent)
    print_result(shown.UNFREEZE, result, shown.unfreeze)
