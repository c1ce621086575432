"""A proxy that records the requests of clients, and the answers of the broker behind it.

    python record.py LISTEN TARGET OUT.jsonl.gz

The broker listens on port TARGET and advertises LISTEN. SIGTERM ends it and writes the file, in the order
of the requests: the first one of each client, API and version, and all of the client `by-hand`. The broker's
own (its id is the client id), and searches for a coordinator that is not there yet, are left out.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import struct
import sys
from collections import deque
from pathlib import Path
from typing import Any

FIND_COORDINATOR, COORDINATOR_NOT_AVAILABLE = 10, "000f"


async def frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))


async def pass_requests(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    rows: list[dict[str, Any]],
    unanswered: deque[dict[str, Any]],
) -> None:
    while True:
        data = await frame(reader)
        key, version, _, size = struct.unpack_from(">hhih", data, 4)
        client = data[14 : 14 + max(size, 0)].decode()
        row = {
            "client": client,
            "key": key,
            "version": version,
            "request": data.hex(),
            "response": None,
        }
        rows.append(row)
        unanswered.append(row)
        writer.write(data)


async def pass_responses(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, unanswered: deque[dict[str, Any]]
) -> None:
    while True:
        data = await frame(reader)
        correlation = data[4:8].hex()
        while unanswered[0]["request"][16:24] != correlation:
            unanswered.popleft()  # acks=0
        unanswered.popleft()["response"] = data.hex()
        writer.write(data)


async def record(listen: int, target: int, rows: list[dict[str, Any]]) -> None:
    async def accept(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        server, forth = await asyncio.open_connection("127.0.0.1", target)
        unanswered: deque[dict[str, Any]] = deque()
        both = [
            asyncio.ensure_future(pass_requests(client, forth, rows, unanswered)),
            asyncio.ensure_future(pass_responses(server, back, unanswered)),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        forth.close()
        back.close()

    async with await asyncio.start_server(accept, "127.0.0.1", listen) as server:
        await server.serve_forever()


def kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the file."""
    seen, found = set(), []
    for row in rows:
        name, answer = (row["client"], row["key"], row["version"]), row["response"]
        is_by_hand = row["client"] == "by-hand"
        if row["client"].isdigit() or (not is_by_hand and (name in seen or answer is None)):
            continue
        if row["key"] == FIND_COORDINATOR and COORDINATOR_NOT_AVAILABLE in answer[16:30]:
            continue
        seen.add(name)
        found.append(row)
    return found


def main() -> None:
    rows: list[dict[str, Any]] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asyncio.run(record(int(sys.argv[1]), int(sys.argv[2]), rows))
    except KeyboardInterrupt:
        lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in kept(rows)]
        Path(sys.argv[3]).write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main()
