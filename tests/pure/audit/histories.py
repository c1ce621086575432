"""Histories in words, and what a rule finds in them: the tables of the tests of findings.

    claim_stolen
    given owned: open 1; claim g t-0 g_a-0 1
    An owner that another session deletes is an error there:
        owned; open 2; +300; freed: release g t-0 2
        > error g t-0 0x2 freed: 'g_a-0' (session 0x1) was deleted by session 0x2
        > (least_ms=500) nothing

The name of a rule begins its cases. A case is a line that says what it shows; below it are statements, and
the findings of the history so far. A line with another indent than four continues the one before it.

Statements are the methods of `Cluster` with their arguments. `+300` waits, `skip 5` leaves out zxids, and
`N times (...)` repeats, each `{...}` with the value of its expression in `n`. A name of `given` stands for
its statements. `new zxid=100` begins another log; `new lists` is one whose ends of sessions list ephemerals,
and `new either` is both. A label in front of a statement is the zxid of what that wrote last.

The lines behind `>` are all findings of the rule: severity, group, partition, session, first and last zxid,
the times where they are not those of these records, and the detail. `(...)` begins another question, with
bounds, or with the name of another rule or `all`. Where rules are named, `owners`, `offsets` and `sessions`
ask for those of t-0 in group g, and for all sessions.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pytest

from tests.pure.audit.cluster import Cluster, controller, state_text
from tests.worlds.audit_log import START_MS, registration
from tests.worlds.plain_findings import find
from tests.worlds.record_by_record import rows_by_partition
from tests.worlds.screened_findings import rows_of_events
from zkgroup.audit.answers.partitions import GroupPartition, offsets_of, owners_of
from zkgroup.audit.answers.snapshots import session_views
from zkgroup.audit.findings.engine import KNOWN_RULES, RULES
from zkgroup.audit.findings.rules import Finding, Interval
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.source import SeenTree
from zkgroup.model import TopicPartition
from zkgroup.model.text import hex_session
from zkgroup.zkfiles.records import AclEntry, Operation, TransactionType
from zkgroup.zkfiles.tree import Tree

_RULES = {"all": RULES, **{rule.name: (rule,) for rule in RULES}}
_NAMES = {rule.name for rule in KNOWN_RULES} | {"owners", "offsets", "sessions"}
"""What can be asked for."""
T0_OF_G = GroupPartition("g", TopicPartition("t", 0))
_INDENT = "    "
_ACLS = {
    "open": (AclEntry(31, "world", "anyone"),),
    "read": (AclEntry(1, "world", "anyone"), AclEntry(31, "sasl", "kafka")),
}


class Question(NamedTuple):
    """A rule, its bounds, and the findings that are expected, in words."""

    rule: str
    bounds: dict[str, float]
    expected: list[str]


class Case(NamedTuple):
    """Statements, and questions about the history up to there."""

    rule: str
    givens: Mapping[str, str]
    steps: list[str | Question]

    def check(self, begun: Callable[[Mapping[str, str], bool | None], History] | None = None) -> None:
        """Compares what is found with what is written; `begun` makes another kind of history."""
        is_either = any(isinstance(step, str) and step.startswith("new either") for step in self.steps)
        for with_lists in (False, True) if is_either else (None,):
            history = (begun or History)(self.givens, with_lists)
            for step in self.steps:
                if isinstance(step, str):
                    history.read(step)
                    continue
                assert history.found(step.rule, step.bounds) == step.expected

    def add(self, line: str) -> None:
        """Reads a line of the case's body."""
        if not line.startswith("> "):
            self.steps.append(line)
            return
        asked = re.match(r"> \((.*?)\) ", line)
        if asked or not (self.steps and isinstance(self.steps[-1], Question)):
            self.steps.append(self._question(asked[1] if asked else ""))
        finding = line[asked.end() if asked else 2 :]
        question = self.steps[-1]
        if isinstance(question, Question) and finding != "nothing":
            question.expected.append(finding)

    def _question(self, asked: str) -> Question:
        words = [word.partition("=") for word in asked.split(", ") if word]
        rule = next((name for name, is_bound, _ in words if not is_bound), self.rule)
        return Question(rule, {f"{rule}.{name}": float(value) for name, _, value in words if value}, [])


def cases(table: str) -> pytest.MarkDecorator:
    """Parametrizes a test with the argument `case`."""
    rule, givens = "", dict[str, str]()
    found = list[tuple[str, Case]]()
    for line in _joined(table.strip("\n").splitlines()):
        if line.startswith(_INDENT):
            found[-1][1].add(line.strip())
        elif line in _NAMES:
            rule = line
        elif line.startswith("given "):
            name, _, statements = line.removeprefix("given ").partition(": ")
            givens = {**givens, name: statements}
        else:
            found.append((f"{rule}: {line}", Case(rule, givens, [])))
    return pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in found])


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Each line with those that continue it; empty ones are left out."""
    whole = ""
    for line in filter(None, lines):
        if line.startswith(" ") and not re.match(f"{_INDENT}[^ ]", line):
            whole += f" {line.strip()}"
        else:
            yield from [whole] if whole else []
            whole = line
    yield whole


class History:
    """A log that is written by statements."""

    def __init__(self, givens: Mapping[str, str], with_lists: bool | None = None) -> None:
        self._givens = givens
        self._with_lists = with_lists
        self._labels: dict[int | None, str] = {None: ""}
        self.log: Any = Cluster(with_lists=bool(with_lists))

    def read(self, text: str) -> None:
        """Does what the statements say."""
        for statement in _split(text):
            repeated = re.fullmatch(r"(\d+) times \((.*)\)", statement)
            labelled = re.fullmatch(r"(\w+): (.*)", statement)
            if repeated:
                for number in range(int(repeated[1])):
                    self.read(_with_values(repeated[2], number))
            elif statement in self._givens:
                self.read(self._givens[statement])
            elif labelled:
                self._do(labelled[2])
                self._labels[self.log.zxid] = labelled[1]
            else:
                self._do(statement)

    def _do(self, statement: str) -> None:
        verb, *words = shlex.split(statement)
        if re.fullmatch(r"[+-]\d+", verb):
            self.log.wait(int(verb))
        elif verb == "new":
            zxid = next((int(word.removeprefix("zxid=")) for word in words if "zxid=" in word), 1)
            self.log = Cluster(zxid, with_lists="lists" in words or bool(self._with_lists))
            self._labels = {None: ""}
        elif verb == "skip":
            self.log.zxid += int(words[0], 0)
        elif verb == "multi":
            session, *operations = statement.split(" & ")
            self.log.multi(int(session.split()[1], 0), *map(self._operation, operations))
        else:
            self._called(verb, words)

    def _operation(self, text: str) -> Operation:
        verb, *words = shlex.split(text)
        if verb == "error":
            return Operation(TransactionType.ERROR, error=int(words[0]))
        operation: Operation = self._called(verb, words)
        return operation

    def _called(self, verb: str, words: Sequence[str]) -> Any:
        args, more = self._arguments(verb, words)
        return getattr(self.log, verb)(*args, **more)

    def _arguments(self, verb: str, words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
        """Of a method of the log: flags by their name, `name=value`, and the others in their order."""
        parameters = inspect.signature(getattr(self.log, verb)).parameters.values()
        names = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        args, more = list[Any](), dict[str, Any]()
        for word in words:
            name, is_named, value = word.partition("=")
            if word in ("ephemeral", "expired"):
                more[word] = True
            elif is_named and name.isidentifier():
                more[name] = _value(name, value)
            else:
                args.append(_value(names[min(len(args), len(names) - 1)], word))
        return args, more

    def found(self, rule: str, bounds: Mapping[str, float]) -> list[str]:
        """The answers to a question, in words."""
        if rule in _ANSWERS:
            return [" ".join(words) for words in _ANSWERS[rule](self, self.log.events(), self.log.facts())]
        return [self._shown(each) for each in find(_RULES[rule], self.log.events, bounds)]

    def _shown(self, finding: Finding) -> str:
        words: list[str] = [finding.severity, *filter(None, [finding.group])]
        if finding.topic is not None:
            words.append(f"{finding.topic}-{'*' if finding.partition is None else finding.partition}")
        if finding.session is not None:
            words.append(hex_session(finding.session))
        return f"{' '.join([*words, *self.time(finding)])}: {finding.detail}"

    def time(self, interval: Interval) -> Iterator[str]:
        """Its zxids, and its times where they are not those of the records."""
        zxids = interval.from_zxid, interval.to_zxid
        if zxids != (None, None):
            first, last = (self._labels.get(zxid) or f"#{zxid:x}" if zxid else "" for zxid in zxids)
            yield first if first == last else f"{first}..{last}"
        times: dict[int | None, int] = {each.zxid: each.time_ms for each in self.log.transactions}
        if (times.get(zxids[0]), times.get(zxids[1])) != (interval.from_ms, interval.to_ms):
            yield f"{_since(interval.from_ms)}..{_since(interval.to_ms)}"

    def owners(self, events: list[Event], facts: Facts) -> Iterator[Iterable[str]]:
        for life in owners_of(rows_by_partition(events).get(T0_OF_G, []), facts):
            ender = [] if life.ender is None else [f"by {hex_session(life.ender)}"]
            yield life.thread, hex_session(life.session), *self.time(life), life.ended_by, *ender

    def offsets(self, events: list[Event], facts: Facts) -> Iterator[Iterable[str]]:
        for row in offsets_of(rows_by_partition(events).get(T0_OF_G, []), facts, "g"):
            moment = Finding(
                "", "info", from_zxid=row.zxid, to_zxid=row.zxid, from_ms=row.time_ms, to_ms=row.time_ms
            )
            owned = {True: "owned", False: "not owned", None: "unknown"}[row.owned]
            yield (
                *(row.kind, hex_session(row.session), *row.members, *self.time(moment)),
                *(f"{row.previous} -> {row.offset},", owned, f"by {row.owner}", *["rewind"] * row.is_rewind),
            )

    def sessions(self, events: list[Event], facts: Facts) -> Iterator[Iterable[str]]:
        seen = SeenTree(Tree(digests=False), 0, None, True, False, "")
        for row in session_views(rows_of_events(lambda: events, seen))[1]:
            was = [
                *("/".join(each) for each in row.members),
                *row.brokers,
                *["controller"] * row.was_controller,
            ]
            yield (
                *(hex_session(row.session), f"of {row.server}, {row.timeout_ms} ms", *self.time(row)),
                *(row.ended, f"writes {row.writes}, silent {row.silence_ms} ms,"),
                *(f"{row.ephemerals} of {row.created} ephemerals", *was),
            )


_ANSWERS: dict[str, Callable[[History, list[Event], Facts], Iterator[Iterable[str]]]] = {
    "owners": History.owners,
    "offsets": History.offsets,
    "sessions": History.sessions,
}


def _since(ms: int | None) -> str:
    return "" if ms is None else f"{ms - START_MS:+}"


def _with_values(text: str, number: int) -> str:
    return re.sub(r"\{([^{}]+)\}", lambda match: str(eval(match[1], {"n": number})), text)


def _split(text: str) -> Iterator[str]:
    """The statements between semicolons; those in brackets or quotes separate nothing."""
    depth, is_quoted, start = 0, False, 0
    for place, character in enumerate(chain(text, ";")):
        is_quoted ^= character == "'"
        depth += 0 if is_quoted else (character == "(") - (character == ")")
        if character == ";" and depth == 0 and not is_quoted:
            yield text[start:place].strip()
            start = place + 1


def _value(name: str, text: str) -> Any:
    """By the name of its parameter; entries of a mapping stand between slashes."""
    match name:
        case "path" | "group" | "member" | "thread" | "topic" | "zkgroup" | "strategy":
            return text
        case "data":
            return _data(text)
        case "session":
            return (int(text, 0) + 2**63) % 2**64 - 2**63
        case "acl":
            return _ACLS[text]
        case "partition":
            return _partition(text)
        case "paths":
            return text.split(",")
        case "isr":
            return [] if text == "-" else [int(each) for each in text.split(",")]
        case "partitions" | "targets" | "wants" if not text.isdigit():
            entries = (each.partition(":")[::2] for each in text.split("/") if each != "none")
            return {_key(key): _value("isr" if name != "wants" else "", value) for key, value in entries}
        case "ms" | "mtime_ms" if text[0] in "+-":
            return START_MS + int(text)
    return None if text == "none" else int(text, 0) if re.fullmatch(r"-?(0x)?[0-9a-f]+", text) else text


def _key(text: str) -> Any:
    return int(text) if text.isdigit() else _partition(text) if re.fullmatch(r".+-\d+", text) else text


def _partition(text: str) -> tuple[str, int]:
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def _data(text: str) -> str | None:
    """`null`, a text, `@bytes/COUNT`, or what clients write: `@state/LEADER/ISR/EPOCHS` and the like."""
    match text.split("/"):
        case ["null"]:
            return None
        case ["@bytes", count]:
            return "x" * int(count)
        case ["@registration"]:
            return registration()
        case ["@controller", broker]:
            return controller(int(broker))
        case ["@state", leader, isr, *epochs]:
            return state_text(int(leader), _value("isr", isr), *map(int, epochs))
    return text
