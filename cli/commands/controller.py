"""`zkgroup controller describe|history|resign`."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.admin.change import ChangeResult
from zkgroup.admin.cluster import controller as admin
from zkgroup.admin.cluster.controller import (
    ControllerDescription,
    PastController,
    Resignation,
    ResignationPlan,
)

from ..app import fail_check, output
from ..app import group as make_group
from ..confirm import command_text, print_result, run_change
from ..context import connected
from ..params import Consent, confirm_options, wait_options
from ..render import Output, echo_err
from ..schema import Document, KeyColumn, NamedKeys, Shape, given, word

controller = make_group(
    "controller",
    help="""Show the active controller, its history; make it resign.

    \b
    Example:
      zkgroup controller describe""",
)


CONTROLLER = Document(
    "controller",
    Shape(
        ControllerDescription,
        *("controller", "epoch", "elected_at_ms", "session"),
        *(given("kind", word("zkgroup", "kafka")), "last_processed_zxid"),
    ),
)
EPOCH = Shape(
    PastController,
    *("epoch", "record.broker", "record.session", "record.reason", "record.from_ms", "record.until_ms"),
    *("record.load_ms", "record.ended"),
    columns=(
        *("epoch", "broker", "from", "until", KeyColumn("load_ms", rank=1)),
        *(KeyColumn("reason", "WHY", shorten="end"), KeyColumn("ended", shorten="end", rank=2)),
    ),
)
HISTORY = Document("controller_history", NamedKeys(epochs=Sequence[PastController]), rows="epochs")
Resigning = ChangeResult[ResignationPlan, None, Resignation]
RESIGNATION = Document(
    "controller_resignation",
    Shape(
        Resigning,
        *("plan.controller", "plan.epoch", "plan.czxid", "executed"),
        *("outcome.resigned", "outcome.successor"),
    ),
)


@controller.command("describe")
def describe_controller() -> None:
    """Show the active controller. Exit code 5 where there is none.

    \b
    Example:
      zkgroup controller describe
    """
    out = output()
    with connected() as ensemble:
        as_of, one = admin.describe_controller(ensemble)
    if not CONTROLLER.print(out, as_of, one):
        document = CONTROLLER.json(as_of, one)
        for name in ("controller", "epoch", "elected_at", "session", "kind", "last_processed_zxid"):
            value = document[name]
            out.line(f"{out.paint(f'{name:<20}', 'dim')} {'-' if value is None else value}")


@controller.command()
def history() -> None:
    """Show the epochs of zkgroup controllers, the latest first.

    Epochs that are not listed were those of Kafka controllers.

    \b
    Example:
      zkgroup controller history
    """
    out = output()
    with connected() as ensemble:
        as_of, rows, unreadable = admin.controller_history(ensemble)
    if not HISTORY.print(out, as_of, epochs=rows):
        EPOCH.table(out, rows)
        if not rows:
            echo_err("no zkgroup controller has been active here")
    for text in unreadable:
        echo_err(f"note: {text}")


@controller.command()
@wait_options("another controller is active, or the same one again")
@confirm_options
def resign(wait_s: float | None, consent: Consent) -> None:
    """Ask the controller to resign, so that another is elected.

    Brokers serve meanwhile. Refused at a Kafka controller, which does not read such a request. It cannot be
    undone.

    \b
    Example:
      zkgroup controller resign --execute --wait
    """
    with connected() as ensemble:
        change = admin.resign_controller_change(ensemble, admin.plan_resignation(ensemble))
        result = run_change(change, _show, consent, wait_s)
    print_result(RESIGNATION, result, _show)
    if result.outcome is not None and result.outcome.successor is None:
        echo_err(
            f"the request stays until a controller carries it out: {command_text('controller', 'describe')}"
        )
        fail_check()


def _show(out: Output, result: Resigning) -> None:
    out.line(_summary(result.plan, result.outcome, executed=result.executed))


def _summary(plan: ResignationPlan, outcome: Resignation | None, *, executed: bool) -> str:
    epoch = "" if plan.epoch is None else f", epoch {plan.epoch}"
    who = f"controller {plan.controller}{epoch}"
    if outcome is None:
        return f"{'asked' if executed else 'would ask'} {who} to resign"
    if not outcome.resigned:
        return f"asked {who} to resign; it has not yet"
    return f"{who} has resigned; " + (
        "no controller is active yet"
        if outcome.successor is None
        else f"broker {outcome.successor} is the controller now"
    )
