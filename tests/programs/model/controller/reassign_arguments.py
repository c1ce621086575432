"""What a walk through the moves of the model is asked for."""

import argparse

VARIANTS = (
    "recipe",
    "mended",
    "code",
    "shrink-blind",
    "two-writes",
    "entry-first",
    "no-bump",
    "no-admin-version",
    "delete-early",
)


def arguments(description):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--variant", choices=VARIANTS, default="recipe")
    p.add_argument(
        "--moves", default="1/2", help="replica lists in order, e.g. 1,2/2,3 or there and back 1/2/1"
    )
    p.add_argument(
        "--await-um", action="store_true", help="a new controller awaits an answer of every broker first"
    )
    p.add_argument("--lease", action="store_true", help="no request is sent once the own lease has ended")
    p.add_argument("--back-to-plan", action="store_true", help="step 8 whose condition is gone plans again")
    p.add_argument(
        "--loop", action="store_true", help="step 4 does not ask whether a target lives (endless bumps)"
    )
    p.add_argument(
        "--union-late",
        action="store_true",
        help="after step 7 LeaderAndIsr carries the replica list of the znode, not the target",
    )
    p.add_argument(
        "--adopt", action="store_true", help="leaders of ours adopt a newer version (controller.md 8.3)"
    )
    for name, default in (
        ("controllers", 2),
        ("expiries", 0),
        ("crashes", 0),
        ("lags", 0),
        ("produces", 0),
        ("cancels", 0),
        ("breaks", 0),
        ("lost", 0),
        ("channel", 3),
        ("max-states", 1_200_000),
        ("max-seconds", 200),
    ):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--quiet", action="store_true", help="no traces")
    p.add_argument("--stop", action="store_true", help="end at the first violation")
    return p
