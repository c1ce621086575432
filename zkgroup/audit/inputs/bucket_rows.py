"""The rows that make the facts of a history, and those that rules about sessions cannot do without."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.inputs.bucket_names import stable_order
from zkgroup.audit.inputs.codes import CLOSE_SESSION, CREATE, CREATE_SESSION, DELETE, ERROR, OF_SESSION
from zkgroup.audit.inputs.fact_rows import fact_rows
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers

_NODE_EXISTS: Final = -110


def known_rows(columns: Columns) -> Numbers:
    """The rows of a part that make its facts, or that a rule about sessions cannot do without.

    Parts follow each other in time. Rules about sessions ask for the rows of ephemerals, what a session wrote
    last, requests that failed because a znode was there, and the row of the session before each of these.
    """
    matters: Flags = np.zeros(len(columns), np.bool_)
    matters[fact_rows(columns)] = True
    op = columns.op
    makes = (op == CREATE) & (columns.ephemeral == OF_SESSION)
    matters |= columns.applied & (makes | (op == DELETE))
    matters |= (op == CREATE_SESSION) | (op == CLOSE_SESSION)
    sessions = pa.array(columns.session).dictionary_encode().indices.to_numpy()
    order = stable_order(sessions)
    session = sessions[order]
    is_next = np.append([False], session[1:] == session[:-1])[: len(order)]
    errors: Numbers = columns.error.fill_null(0).to_numpy(zero_copy_only=False)
    contended = ((op == ERROR) & (errors == _NODE_EXISTS))[order]
    matters[order[contended]] = True
    matters[order[np.flatnonzero(contended & is_next) - 1]] = True
    is_closing = np.isin(columns.zxid, columns.zxid[op == CLOSE_SESSION])[order]
    for some in (order, order[~is_closing]):
        session = sessions[some]
        matters[some[np.append(session[1:] != session[:-1], True)[: len(some)]]] = True
    return np.flatnonzero(matters)
