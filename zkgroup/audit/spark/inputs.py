"""Where a job looks: the folders of one or several ensembles, on this machine or behind a Hadoop URI."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.audit.manifest import is_converted
from zkgroup.audit.sources import path_of, require_source
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.names import list_files

UNNAMED: Final = "ensemble"
"""The name of the ensemble whose folders were given without one."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):/")


@dataclass(frozen=True, slots=True)
class EnsembleInput:
    """The folders of one ensemble's servers: all on local or shared paths, or one behind a URI."""

    name: str
    folders: tuple[str, ...]

    @property
    def is_local(self) -> bool:
        """Whether every worker opens the files by their paths."""
        return not any(is_uri(folder) for folder in self.folders)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The folders on local or shared paths."""
        return tuple(Path(folder) for folder in self.folders)


def is_uri(place: str) -> bool:
    """Whether a place is read by Hadoop's filesystems."""
    return _SCHEME.match(place) is not None


class Given(NamedTuple):
    """One input as it was typed."""

    name: str | None
    place: str
    """An absolute path, or a URI."""


def given_of(texts: Sequence[str]) -> list[Given]:
    """`[NAME=]FOLDER|URI`, each. Raises ConfigError for a name or a folder that is none."""
    return list(map(_given, texts))


def _given(text: str) -> Given:
    name, equals, place = text.partition("=")
    if _NAME.fullmatch(name) and place:
        return Given(name, _absolute(place))
    if not equals or "/" in name or path_of(text).exists():
        return Given(None, _absolute(text))
    if place:
        raise ConfigError(
            f"input {text!r}: expected [NAME=]FOLDER with a NAME of letters, digits, '.', '_' and '-', found "
            f"the name {name!r}"
        )
    raise ConfigError(f"input {text!r}: expected a folder after the name, found nothing")


def _absolute(place: str) -> str:
    path = path_of(place)
    return place if is_uri(str(path)) else str(path.absolute())


def require_inputs(texts: Sequence[str]) -> None:
    """Looks at the inputs on paths, before Spark is started for them. Raises NotZooKeeperFileError."""
    for _, place in given_of(texts):
        if not is_uri(place):
            require_source(Path(place))


def require_output(output: str, texts: Sequence[str]) -> None:
    """Looks at an output on a path, before Spark is started for it.

    Raises ConfigError for a file, and for a folder of what is read: that stays as it is.
    """
    target = path_of(output)
    if is_uri(str(target)):
        return
    target = target.resolve()
    is_file = next((each for each in (target, *target.parents) if each.exists() and not each.is_dir()), None)
    if is_file is not None:
        raise ConfigError(f"output {output}: expected a folder, found a file at {is_file}")
    for _, place in given_of(texts):
        path = Path(place)
        if is_uri(place) or is_converted(path):
            continue
        files = list_files(path).folder.resolve()
        if target in (path.resolve(), files) or files in target.parents:
            raise ConfigError(f"output {output} would lie among the files that are read: name another folder")


def inputs_of(given: Sequence[Given]) -> list[EnsembleInput]:
    """The same name for the servers of one ensemble, none where there is one only.

    Raises ConfigError for servers of one ensemble behind URIs: which record of several servers counts is
    decided over files on paths.
    """
    folders: dict[str, list[str]] = {}
    for name, place in given:
        folders.setdefault(name or UNNAMED, []).append(place)
    found = [EnsembleInput(name, tuple(places)) for name, places in folders.items()]
    for each in found:
        if not each.is_local and len(each.folders) > 1:
            raise ConfigError(
                f"ensemble {each.name!r}: expected one URI, or local or shared paths of its servers, found "
                f"{', '.join(each.folders)}; give each server a name of its own with NAME=URI"
            )
    return found
