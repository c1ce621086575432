"""`zkgroup audit summary` on a terminal of 80 columns and 24 lines."""

from __future__ import annotations

import pytest
from zkgroup_cli.commands.audit.summary import GROUP_SUMMARY, GROUPS, SCREEN
from zkgroup_cli.render import render

from zkgroup.audit.incidents.incident import SummaryRow

TITLE = "00:00:42 session …0b, which is no member, claimed adopt's t-0..3, while adopt_d kept committing"


@pytest.mark.parametrize("groups", [1, 9, 10, GROUPS])
def test_groups_that_all_went_wrong_fit_on_one_screen(groups: int) -> None:
    """Long titles have two lines where there is room, else one, which ends in an ellipsis."""
    rows = [SummaryRow(f"g{number}", 4, 3, 2, 1, 1, 9, TITLE) for number in range(groups)]
    rows.append(SummaryRow(None, 3, 2, 1, 1, 0, 9, TITLE))

    lines = render(GROUP_SUMMARY.columns(rows), rows, width=80)

    assert max(map(len, lines)) <= 80
    assert len(lines) + 2 < SCREEN  # the time above, and a line about groups left out
    assert all(any(line.startswith(f"g{number} ") for line in lines) for number in range(groups))
    assert len(lines) - 2 == len(rows) * (2 if groups < 9 else 1)
