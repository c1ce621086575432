"""What a line asks for itself, beside the requests it carries: whether its root exists, and its end."""

from __future__ import annotations

from zkgroup.errors import ConfigError
from zkgroup.zookeeper.address import Address
from zkgroup.zookeeper.codes import NO_NODE


class Goodbye:
    """Answer to the request that closes the session."""

    def __init__(self) -> None:
        self.said = False
        self.answered = False

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self.answered = True

    def refused(self, number: int) -> None:
        self.answered = True

    def lost(self, sent: bool) -> None:
        """The server ends the session by its own clock, if it has not yet."""


class ChrootLook:
    """Whether our root exists; answer to the request that looks, before anything else is sent."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.exists = not address.chroot
        self.missing = False
        self.asked = False

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self.exists = True

    def refused(self, number: int) -> None:
        self.missing = number == NO_NODE
        self.exists = not self.missing  # what may not be read is there

    def lost(self, sent: bool) -> None:
        """The next connection looks again."""

    def error(self) -> ConfigError:
        return ConfigError(
            f"{self._address.chroot}: expected the chroot of ZooKeeper address {self._address}, found no "
            f"such znode; `zkgroup zookeeper create-chroot -z {self._address}` creates it, "
            f"`zkgroup znode ls / -z {self._address.servers}` shows what there is"
        )
