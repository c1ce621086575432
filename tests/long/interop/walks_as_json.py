"""The tree that a client walks, as lines of JSON: the format of the trees in `tests/golden/README.md`."""

from __future__ import annotations

import base64
import json
from typing import Any

from kazoo.client import KazooClient

from zkgroup.model.requests import STAT_NAMES


def walked(client: KazooClient) -> str:
    """Every znode but those below `/zookeeper`, sorted by path. No client may write meanwhile."""
    client.sync("/")
    return "".join(f"{_line(client, path)}\n" for path in sorted(_paths(client, "/")))


def _paths(client: KazooClient, path: str) -> list[str]:
    children = [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
    return [path, *(each for child in children if child != "/zookeeper" for each in _paths(client, child))]


def _line(client: KazooClient, path: str) -> str:
    data, stat = client.get(path)
    acls, _ = client.get_acls(path)
    line: dict[str, Any] = {"path": path}
    try:
        line["data"] = None if data is None else data.decode()
    except UnicodeDecodeError:
        line["data64"] = base64.b64encode(data).decode()
    line["stat"] = dict(zip(STAT_NAMES, stat, strict=True))
    line["acl"] = [{"perms": each.perms, "scheme": each.id.scheme, "id": each.id.id} for each in acls]
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))
