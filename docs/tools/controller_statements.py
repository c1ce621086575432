"""The statements that the tests of brokers and controller have to show, and against what each is shown."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["server", "wire", "unit"]


class Statement(NamedTuple):
    """One statement: against a real ZooKeeper server, with bytes on a connection, or by itself."""

    kind: Kind
    text: str


SECTIONS: Final = {
    "Znodes and encoding": range(1, 14),
    "Election and fencing": range(14, 25),
    "State machines": range(25, 37),
    "Reassignment": range(37, 50),
    "Other flows": range(50, 65),
    "Wire and brokers": range(65, 75),
    "Scale": range(75, 81),
}

ITEMS: Final[dict[int, Statement]] = {
    1: Statement(
        "server",
        "On an empty chroot a broker creates the parents that 0.8.2.2 makes and those that later tools expect, and creates the chroot itself.",
    ),
    2: Statement(
        "server",
        "`/brokers/ids/{id}` is ephemeral, has `host`, `port`, `jmx_port` as described, `timestamp` a string; the tool lists and describes topics without error.",
    ),
    3: Statement(
        "unit", "Broker schemas v1–v5 decode; missing rack, map and features tolerated; version 0 refused."
    ),
    4: Statement("unit", "Topic schemas v1, v2, v3 decode; rewriting v3 keeps `topic_id` and unknown keys."),
    5: Statement("unit", "No writer emits a JSON number beyond 32 bits or with a fraction."),
    6: Statement("unit", "Strings with quotes, backslash and non-ASCII are escaped and read back."),
    7: Statement(
        "unit",
        "`/controller` holding bare text `3` decodes to broker 3; v2 with `kraftControllerEpoch` decodes.",
    ),
    8: Statement(
        "unit", "Config znode with `version` other than 1 is rejected on read; values are always strings."
    ),
    9: Statement(
        "server", "Null data and empty data behave alike for every parent znode and for deletion markers."
    ),
    10: Statement(
        "unit",
        "Reassign writer emits exactly `version`, `partitions` and in each entry `topic`, `partition`, `replicas`; 2.8.2 reads it.",
    ),
    11: Statement(
        "unit",
        "With smallest broker version 1, 2–3, 4–5 the notification payload is the bare string, v1, v2 respectively; never more than one.",
    ),
    12: Statement(
        "unit", "An unreadable notification is skipped, later ones are applied, clean-up still happens."
    ),
    13: Statement("server", "Notifications older than 15 minutes by ctime are deleted, younger ones kept."),
    14: Statement(
        "server",
        "Of N candidates exactly one wins; `/controller_epoch` grows by exactly 1 per change of controller; first epoch is 1.",
    ),
    15: Statement(
        "server",
        "If another process bumps `/controller_epoch` between read and multi, the candidate does not become controller and leaves no `/controller`.",
    ),
    16: Statement(
        "server",
        "Lost reply on the winning multi (connection cut after commit) ends with exactly one controller that knows it won.",
    ),
    17: Statement(
        "server",
        "Deleting `/controller` by hand triggers re-election; replacing it by another id makes the old controller resign.",
    ),
    18: Statement(
        "server",
        "An exception during failover resigns and never deletes a `/controller` owned by another session.",
    ),
    19: Statement(
        "server",
        "After an epoch bump by another process, every write of the old controller fails and changes nothing; it resigns.",
    ),
    20: Statement(
        "unit", "`state` with a higher controller_epoch than the controller's own is not overwritten."
    ),
    21: Statement(
        "server",
        "Session expiry: queued events are dropped, resignation happens before the new session is used, registration precedes election.",
    ),
    22: Statement("server", "Short disconnection without expiry causes neither resignation nor re-election."),
    23: Statement(
        "server",
        "All watches are armed before the initial load: a topic created during failover is not lost.",
    ),
    24: Statement("unit", "After resignation no cached state survives."),
    25: Statement(
        "unit",
        "Every illegal transition of partitions and replicas is refused, logged, and leaves other items of the batch processed.",
    ),
    26: Statement(
        "unit",
        "Initialise: leader first live of AR, ISR = all live in AR order, leader_epoch 0; no live replica → New, retried when a broker starts.",
    ),
    27: Statement("server", "`state` already present at initialise → failure of that partition only."),
    28: Statement(
        "unit",
        "Offline selector: AR order wins over ISR order; unclean only when enabled; ISR becomes one member.",
    ),
    29: Statement("unit", "Topic-level unclean setting overrides the broker setting both ways."),
    30: Statement(
        "unit",
        "Preferred selector refuses when the first replica is dead or not in ISR, and makes no write when it already leads.",
    ),
    31: Statement("unit", "Reassigned selector uses target order and keeps the ISR."),
    32: Statement(
        "unit",
        "Controlled-shutdown selector excludes all shutting-down brokers from leader and ISR; recipients include them.",
    ),
    33: Statement("unit", "ISR removal of the leader writes leader -1; last member is kept."),
    34: Statement(
        "server", "BADVERSION during election re-reads and succeeds; only the conflicting partitions repeat."
    ),
    35: Statement("unit", "Replicas of dead brokers start as DeletionIneligible."),
    36: Statement("unit", "`isr: []` and `leader: -1` are accepted everywhere."),
    37: Statement(
        "server",
        'Tool `--execute` then `--verify` reaches "completed"; final AR equals the target in order; the admin znode is gone.',
    ),
    38: Statement(
        "server",
        "Intermediate AR = target followed by the remaining originals; replica list, leader epoch, ISR and request change in Kafka's order.",
    ),
    39: Statement(
        "server",
        "Kill the controller after each of the eleven steps; the successor completes and no replica is lost.",
    ),
    40: Statement(
        "server",
        "Target broker down: the request stays and completes when the broker is back; AR does not keep old and new replicas for ever.",
    ),
    41: Statement(
        "server", "A second `--execute` while one runs is refused by the tool and by zkgroup's command line."
    ),
    42: Statement(
        "server",
        "Unknown partition, deleted topic, target equal to AR, empty replica list: entry removed, others unaffected.",
    ),
    43: Statement("server", "`partitions: []` is deleted by the controller."),
    44: Statement("server", "Concurrent removal of two finished entries loses neither (conditional update)."),
    45: Statement(
        "server",
        "Verify reports in progress while `adding_replicas` is non-empty even without the admin znode.",
    ),
    46: Statement("server", "Topic deletion requested during a move starts only after it."),
    47: Statement(
        "server",
        "zkgroup's generate with a fixed start equals Kafka's placements, with racks and without; both ways of growing.",
    ),
    48: Statement(
        "server",
        "Throttle rates and lists are written before the znode and removed by verify only when all is complete.",
    ),
    49: Statement(
        "server",
        "1.1.1 and 2.8.2 tools with `--zookeeper` work with a zkgroup controller (create, alter, describe, delete, execute, verify, preferred election).",
    ),
    50: Statement(
        "server",
        "Tool create → `state` exists for each partition and `partitions` parent too; tool describe shows leader and ISR.",
    ),
    51: Statement("server", "Create of an existing topic changes neither its config nor its AR."),
    52: Statement(
        "server", "Tool alter to more partitions: old ones untouched, new ones online, config kept."
    ),
    53: Statement("server", "Growth of a topic queued for deletion is undone and deletion completes."),
    54: Statement(
        "server",
        "Delete with all brokers up removes topic, config, marker; the recreated topic keeps its config.",
    ),
    55: Statement(
        "server",
        "Delete with one broker down stays pending, metadata already hides the topic, completes when it returns.",
    ),
    56: Statement("server", "Deletion disabled: marker removed, topic stays visible, also after failover."),
    57: Statement("server", "Marker for an unknown topic disappears at once."),
    58: Statement(
        "server",
        "Tool preferred election moves all leaders; the znode is removed even if some fail or are unknown.",
    ),
    59: Statement(
        "unit",
        "Rebalance triggers at 11 % and not at 10 %; never during a reassignment; skips dead or out-of-ISR preferred replicas.",
    ),
    60: Statement(
        "server",
        "Controlled shutdown of a broker leading 1 000 partitions with RF 2 leaves 0 remaining; RF 1 partitions untouched; repeated request is harmless.",
    ),
    61: Statement(
        "server",
        "Broker bounce within one watch round trip is detected by czxid and it receives LeaderAndIsr.",
    ),
    62: Statement("server", "Broker join or leave without leader change reaches every broker's live list."),
    63: Statement(
        "server",
        "ISR notification → UpdateMetadata with the new ISR to all brokers and the notification deleted, also when unreadable.",
    ),
    64: Statement("server", "Left-over notifications are deleted at failover."),
    65: Statement(
        "wire",
        "Byte-exact encoding of the four v0 requests against golden samples; unknown delete byte refused; empty partition lists accepted.",
    ),
    66: Statement(
        "wire",
        "Controller_epoch lower than known → 11 for all three requests; equal accepted; higher remembered across request types.",
    ),
    67: Statement(
        "wire",
        "Leader_epoch equal or lower → per-partition 13, state untouched; not-in-replicas → no entry in the response.",
    ),
    68: Statement(
        "wire",
        "Order per broker is LeaderAndIsr, UpdateMetadata, StopReplica; one in flight; resend after failure keeps order.",
    ),
    69: Statement("wire", "Leader -2 removes the partition from the cache; metadata query then answers 3."),
    70: Statement(
        "unit",
        "Leader ISR write keeps leader_epoch and the decision epoch; conflict with identical content counts as success; conflict with another leader stops it.",
    ),
    71: Statement(
        "unit", "ISR notification timing: nothing before 5 s of quiet, something by 60 s, checked each 2.5 s."
    ),
    72: Statement(
        "server",
        "With ZooKeeper stopped for 10 session timeouts metadata queries are still answered; after return the broker re-registers and the cluster converges.",
    ),
    73: Statement(
        "server",
        "Registration with a foreign live owner fails; with the broker's own previous session it succeeds without waiting.",
    ),
    74: Statement("server", "Two brokers never share an automatic id; ids start above 1000."),
    75: Statement(
        "server",
        "Watch count at rest = 3B + T + R + 6, connections = B (four-letter commands or admin server).",
    ),
    76: Statement(
        "server",
        "Failover with 10 000 partitions: reads bounded by B + T + P + 20 and never more than the window in flight.",
    ),
    77: Statement(
        "server",
        "Window 10 is at least 3 times faster than window 1 for a 10 000-partition reload with 2 ms round trip.",
    ),
    78: Statement("unit", "Repeated identical queued events collapse into one."),
    79: Statement(
        "unit", "An oversized batch or topic znode is refused with a clear message before it is sent."
    ),
    80: Statement(
        "server",
        "zkgroup's command line with a Kafka cluster: list, describe, create, alter, delete, execute, verify, preferred election on 0.8.2.2 and one 2.x release; no notification that Kafka cannot read.",
    ),
}
"""`Tool` is the script of Kafka 0.8.2.2 unless another release is named."""

RECIPES: Final = {
    (
        13,
        "T",
    ): "Kafka brokers accept a `/controller` that is set once after its creation; a Kafka controller that"
    " finds it changed instead of deleted does not resign, and writes at its old epoch.",
    (
        13,
        "M",
    ): "A Kafka candidate that expired can raise the epoch late; a Kafka controller can go on after its"
    " successor's election; what recovery leaves undone is lost when the winner expires, unless it is derived"
    " from ZooKeeper alone; no control request is sent after the lease has ended.",
    (
        14,
        "T",
    ): "A controller without partitions gets replicas from Kafka's tools when it is always registered,"
    " and is not found by a broker that shuts down when it is never registered.",
    (
        17,
        "M",
    ): "A replica whose deletion is unanswered gets no other request, nor does one that is moved and whose"
    " broker has answered no request of this epoch; and no list names them: a late deletion would hit one"
    " that has come back.",
}
"""(section of the recipes, mark) -> the facts so marked in that section."""
