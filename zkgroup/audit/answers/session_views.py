"""The sessions of a history, for the answers about them."""

from __future__ import annotations

from itertools import chain

from zkgroup.audit.answers.session_rows import SessionsBuilder
from zkgroup.audit.answers.sessions import SessionRow
from zkgroup.audit.inputs.ends import Ends
from zkgroup.audit.inputs.fact_rows import fact_rows, facts_in, groups_of_paths
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.parts import ROWS_PER_PART, SessionParts, compact
from zkgroup.audit.inputs.rows import Columns
from zkgroup.audit.inputs.source import Rows
from zkgroup.audit.inputs.stored import joined


def session_views(rows: Rows, rows_per_part: int = ROWS_PER_PART) -> tuple[Facts, list[SessionRow], set[str]]:
    """The facts, every session, and the names of all groups. Memory: the sessions, and a part of the rows."""
    if rows.session_parts is not None:
        parts = rows.session_parts(rows_per_part)
    else:
        parts = SessionParts.of(rows.parts(rows_per_part))
    return _session_views(rows, parts)


def _session_views(rows: Rows, parts: SessionParts) -> tuple[Facts, list[SessionRow], set[str]]:
    ends, builder, groups = Ends(parts.before), SessionsBuilder(), set[str]()
    known: list[Columns] = []
    for logged, transactions in chain(((parts.before, None),), parts.logged):
        part = logged if logged is parts.before else ends.added(logged)
        builder.add(part, transactions)
        known.append(compact(part.take(fact_rows(part))))
        groups |= set(groups_of_paths(part.paths)[0])
    facts = rows.ended(facts_in(joined(known)))
    return facts, builder.rows(facts, ends.living), groups
