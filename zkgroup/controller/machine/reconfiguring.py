"""What a changed configuration means for a controller. Source: controller.md 5.10, 1.5.

From 2.1 on, allowing a topic an unclean election also elects for its partitions without a leader
(kafka/controller/KafkaController.scala, TopicUncleanLeaderElectionEnable, @2.1.1). A notification says only
that something has changed, and elections read the configurations that matter to them; so what it says is not
read at all, and none that is malformed can be in the way (K35).
"""

from __future__ import annotations

from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.leading import LEADERLESS
from zkgroup.controller.machine.reign import Reign
from zkgroup.machinery.procedures import Procedure, ask
from zkgroup.model.requests import ListChildren
from zkgroup.znodes.config_changes import config_changes_path


def look(reign: Reign, subject: str = "") -> Procedure[None]:
    """After each notification partitions without a leader are tried again, if there are any."""
    yield from ask(reign.watched(ListChildren(config_changes_path()), Look.CONFIG_CHANGES))
    if any(True for _ in reign.partitions.unusual(LEADERLESS)):
        reign.look(Look.ELECTIONS)
