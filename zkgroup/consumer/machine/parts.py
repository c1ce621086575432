"""The parts of one member's machine, made once and bound to each other."""

from __future__ import annotations

from zkgroup.consumer.machine.claim import Claims
from zkgroup.consumer.machine.commit import Commits
from zkgroup.consumer.machine.config import MemberConfig
from zkgroup.consumer.machine.core import Core
from zkgroup.consumer.machine.lease import Lease
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.plan import Planning
from zkgroup.consumer.machine.registration import Membership
from zkgroup.consumer.machine.release import Releases
from zkgroup.consumer.machine.resets import Resets
from zkgroup.consumer.machine.snapshot import Snapshot
from zkgroup.consumer.machine.verification import Verification
from zkgroup.consumer.machine.views import Views
from zkgroup.machinery.procedures import Runner


class Parts:
    """Who does what: one part for each recipe."""

    def __init__(self, config: MemberConfig) -> None:
        self.core = core = Core(config)
        self.paths = paths = Paths(config.group, config.member_id)
        self.runner = Runner(core)
        self.membership = Membership(core, paths)
        self.lease = Lease(core, paths)
        self.snapshot = Snapshot(core, paths)
        self.planning = Planning(core, paths, self.snapshot)
        self.commits = Commits(core, paths, self.lease, self.snapshot)
        self.claims = Claims(core, paths, self.snapshot, self.planning)
        self.releases = Releases(core, paths, self.snapshot, self.planning)
        self.resets = Resets(core, paths, self.commits)
        self.verification = Verification(core, paths, self.snapshot)
        self.views = Views(core, paths, self.planning)
