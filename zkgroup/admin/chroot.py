"""Creates the root of an address `HOST:PORT/CHROOT`. Kafka's clients and ours never do it by themselves."""

from __future__ import annotations

from zkgroup.admin.ensemble import Ensemble


def missing_levels(ensemble: Ensemble, chroot: str) -> tuple[str, ...]:
    """Paths, parents first, that do not exist yet. `ensemble` is connected above the chroot."""
    parts = chroot.strip("/").split("/")
    levels = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
    found = ensemble.zk.read_many(levels)
    return tuple(path for path in levels if found[path] is None)


def create_chroot(ensemble: Ensemble, levels: tuple[str, ...]) -> None:
    """Creates these persistent znodes with null data; what somebody else creates meanwhile is as good."""
    ensemble.zk.create_missing(*levels)
