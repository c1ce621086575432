"""Drawn configurations of quotas give each client what the classes of Kafka 2.8.2 give it."""

from __future__ import annotations

from pathlib import Path

from tests.long.interop.conftest import fetched
from tests.long.interop.jars import compiled, kafka_jars
from tests.long.interop.members import HERE
from tests.long.interop.toolbox import Toolbox
from tests.worlds.drawn_quotas import differences, drawn

RELEASE, COUNT, SEED = "2.8.2", 300, 2


def test_quotas_are_resolved_as_by_kafka(box: Toolbox, tmp_path: Path) -> None:
    """Value, and who shares it: 300 configurations, 16 clients and 3 addresses at each."""
    fetched(RELEASE)
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(f"{line}\n" for line in drawn(COUNT, SEED)), encoding="utf-8")
    classes = compiled(HERE / "QuotaLevels.java", f"{kafka_jars(RELEASE)}/*")

    printed = box.run(RELEASE, "QuotaLevels", str(asked), classes=classes)

    answers = [line for line in printed.text.splitlines() if line.startswith("{")]
    assert (printed.code, len(answers)) == (0, COUNT), printed.text[-2000:]
    assert [each for line in answers for each in differences(line)] == []
