"""Members of consumer groups of one of Kafka's clients for Python, which print what happens to them.

    PYTHON client_members.py CLIENT

CLIENT is kafka-python, librdkafka or aiokafka; only its package is needed. `ClientMembers.java` is the same
for Java. Each member polls on a thread of its own, and commits what it has read before it polls again.
Lines of the input, with tabs between the words:

    start NAME BOOTSTRAP GROUP TOPIC ASSIGNOR SETTING=VALUE...    settings with Kafka's names
    hold NAME, commit NAME     no commits from now on, and commits again
    stall NAME, resume NAME    no polls from now on, and polls again
    close NAME                 closes the consumer; the client decides whether it leaves the group

At the end of the input the process ends, and no member leaves. Lines of the output are JSON objects with
`member`, `event` and `at` (microseconds): assigned, revoked and lost (partitions), read (partition, first and
last offset), committed and refused (offsets by partition, the error), holding, committing, stalled, resumed,
closing, closed, failed (error).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress

POLL_S = 0.1
LONG_POLL_S = 1.0
BATCH = 20
_printing = threading.Lock()


def named(settings):
    """Settings as keyword arguments of kafka-python and aiokafka."""
    return {name.replace(".", "_"): int(one) if one.isdigit() else one for name, one in settings.items()}


class Member:
    """A thread that polls, commits and prints."""

    def __init__(self, make, name, bootstrap, group, topic, assignor, *settings):
        self.name = name
        self.words = set()
        """The commands that hold: `hold`, `stall`, `close`."""
        self._changed = threading.Condition()
        self.dirty = {}
        """What is read and not committed: partition -> next offset."""
        more = dict(setting.split("=", 1) for setting in settings)
        self._make = lambda: make(self, bootstrap.split(","), group, topic, assignor, more)
        threading.Thread(target=self._guarded, name=name, daemon=True).start()

    def tell(self, command):
        """Takes a command from any thread."""
        with self._changed:
            if command in UNDOES:
                self.words.discard(UNDOES[command])
            else:
                self.words.add(command)
            self._changed.notify_all()

    def say(self, event, **fields):
        with _printing:
            line = {"member": self.name, "event": event, "at": time.time_ns() // 1000, **fields}
            print(json.dumps(line), flush=True)

    def assigned(self, partitions):
        self.say("assigned", partitions=sorted(one.partition for one in partitions))

    def revoked(self, partitions, event="revoked"):
        for one in partitions:
            self.dirty.pop(one.partition, None)
        self.say(event, partitions=sorted(one.partition for one in partitions))

    def read(self, offsets):
        """Takes partition and offset of the records of a poll, of each partition in order."""
        runs = {}
        for partition, offset in offsets:
            if partition in runs and runs[partition][1] + 1 == offset:
                runs[partition][1] = offset
            else:
                self._say_read(partition, runs.get(partition))
                runs[partition] = [offset, offset]
        for partition, run in runs.items():
            self._say_read(partition, run)

    def _say_read(self, partition, run):
        if run is not None:
            self.dirty[partition] = run[1] + 1
            self.say("read", partition=partition, first=run[0], last=run[1])

    def _guarded(self):
        client = None
        try:
            client = self._make()
            self._run(client)
        except Exception as error:
            self.say("failed", error=repr(error))
            if client is not None:
                client.close()
                self.say("closed")
            raise

    def _run(self, client):
        held = False
        while "close" not in self.words:
            if "stall" in self.words:
                self.say("stalled")
                with self._changed:
                    self._changed.wait_for(lambda: "stall" not in self.words or "close" in self.words)
                self.say("resumed")
            if held != ("hold" in self.words):
                held = not held
                self.say("holding" if held else "committing")
            if self.dirty and not held:
                self._commit(client)
            client.poll()
        self.say("closing")
        client.close()
        self.say("closed")

    def _commit(self, client):
        offsets = dict(self.dirty)
        try:
            client.commit()
        except client.refusals as error:
            self.say("refused", offsets=offsets, error=repr(error))
            return
        self.say("committed", offsets=offsets)
        for partition, offset in offsets.items():
            if self.dirty.get(partition) == offset:
                del self.dirty[partition]


class KafkaPython:
    """Joins to the end, and reads its committed offsets, within one poll, however long that takes.

    Where the timeout of a poll ends while the answer to SyncGroup is handled, kafka-python 3.0.12 drops that
    answer: the member sends no heartbeats and gets no partitions, until its session has expired and longer.
    An answer to OffsetFetch that comes after the timeout is kept for the next assignment of these partitions,
    whose offsets may be others by then.
    """

    def __init__(self, member, servers, group, topic, assignor, settings):
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.errors import KafkaConnectionError, KafkaError

        if assignor == "range":
            from kafka.coordinator.assignors.range import RangePartitionAssignor as Assignor
        else:
            from kafka.coordinator.assignors.cooperative_sticky import (
                CooperativeStickyAssignor as Assignor,
            )

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked):
                member.revoked(revoked)

            def on_partitions_assigned(self, assigned):
                member.assigned(assigned)

            def on_partitions_lost(self, lost):
                member.revoked(lost, "lost")

        self.refusals = (KafkaError,)
        self._unreachable = KafkaConnectionError
        self._member = member
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=BATCH,
            metadata_max_age_ms=1000,
            partition_assignment_strategy=[Assignor],
            **named(settings),
        )
        coordinator = self._consumer._coordinator
        join, refresh = coordinator.ensure_active_group, coordinator.refresh_committed_offsets_if_needed
        coordinator.ensure_active_group = lambda timeout_ms=None: join()
        coordinator.refresh_committed_offsets_if_needed = lambda timeout_ms=None: refresh()
        self._consumer.subscribe([topic], listener=Listener())

    def poll(self):
        try:
            polled = self._consumer.poll(int(LONG_POLL_S * 1000))
        except self._unreachable:
            return  # it looked for the coordinator, and asked a broker for metadata that has just been killed
        self._member.read((one.partition, one.offset) for records in polled.values() for one in records)

    def commit(self):
        self._consumer.commit()

    def close(self):
        self._consumer.close(autocommit=False)


class Librdkafka:
    def __init__(self, member, servers, group, topic, assignor, settings):
        from confluent_kafka import Consumer, KafkaError, KafkaException

        self.refusals = (KafkaException,)
        self._no_rights = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED
        self._member = member
        self._consumer = Consumer(
            {
                "bootstrap.servers": ",".join(servers),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": assignor,
                "topic.metadata.refresh.interval.ms": 1000,
                **settings,
            }
        )
        self._consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: member.assigned(partitions),
            on_revoke=lambda _, partitions: member.revoked(partitions),
            on_lost=lambda _, partitions: member.revoked(partitions, "lost"),
        )

    def poll(self):
        message = self._consumer.poll(POLL_S)
        if message is None:
            return
        if message.error() is None:
            self._member.read([(message.partition(), message.offset())])
        elif message.error().code() in self._no_rights:
            raise self.refusals[0](message.error())

    def commit(self):
        self._consumer.commit(asynchronous=False)

    def close(self):
        self._consumer.close()


class Aiokafka:
    """Its event loop runs on a thread of its own, for the heartbeats of a member that does not poll.

    When a member has left because it did not poll, and another rebalance comes meanwhile, aiokafka 0.14.0
    cancels the task that would join again, and every later call raises CancelledError. The program does then
    what an application has to do: it makes a new consumer.
    """

    def __init__(self, member, servers, group, topic, assignor, settings):
        from aiokafka.errors import KafkaError

        assert assignor == "range", assignor
        self.refusals = (KafkaError, CancelledError)
        self._member = member
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name=f"loop of {member.name}", daemon=True).start()
        self._begin = lambda: self._do(self._start(servers, group, topic, settings))
        self._consumer = self._begin()

    async def _start(self, servers, group, topic, settings):
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        member = self._member

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked):
                member.revoked(revoked)

            async def on_partitions_assigned(self, assigned):
                member.assigned(assigned)

        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=BATCH,
            metadata_max_age_ms=1000,
            partition_assignment_strategy=[RangePartitionAssignor],
            **named(settings),
        )
        consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        return consumer

    def poll(self):
        try:
            self._do(self._poll())
        except CancelledError:
            self._member.revoked((), "lost")
            with suppress(CancelledError):
                self._do(self._consumer.stop())
            self._consumer = self._begin()

    async def _poll(self):
        polled = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000))
        self._member.read((one.partition, one.offset) for records in polled.values() for one in records)

    def commit(self):
        self._do(self._consumer.commit())

    def close(self):
        self._do(self._consumer.stop())

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


CLIENTS = {"kafka-python": KafkaPython, "librdkafka": Librdkafka, "aiokafka": Aiokafka}
UNDOES = {"commit": "hold", "resume": "stall"}


def main(client):
    members = {}
    for line in sys.stdin:
        command, name, *words = line.rstrip("\n").split("\t")
        if command == "start":
            members[name] = Member(CLIENTS[client], name, *words)
        else:
            members[name].tell(command)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
