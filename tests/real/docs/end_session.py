"""`end_session ZNODE PID`: once the process has been killed, the session that has this znode ends at once.

So a page waits for nobody's session timeout. The server is that of ZKGROUP_ZOOKEEPER.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.waiting import eventually
from tests.worlds.other_clients import end_session_of, witness_on


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def main(path: str, pid: int) -> None:
    zookeeper = os.environ["ZKGROUP_ZOOKEEPER"]
    eventually(lambda: _is_gone(pid))
    with witness_on(zookeeper) as witness:
        end_session_of(witness, path, int(zookeeper.rpartition(":")[2].partition("/")[0]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
