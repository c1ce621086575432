"""`zkgroup audit inspect`: checks how far snapshots, logs and exports are intact."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

from zkgroup.audit.inputs.found_files import folder_content, holes_of, inspected
from zkgroup.errors import DamagedFileError, MissingFileError, NotZooKeeperFileError
from zkgroup.model.text import counted, hex_zxid
from zkgroup.zkfiles.exports import EXPORT, begins_as_export
from zkgroup.zkfiles.files import LOG, SNAPSHOT, FileBytes, ServerFile, bytes_text
from zkgroup.zkfiles.jute import Oversized
from zkgroup.zkfiles.logs import FileHealth
from zkgroup.zkfiles.records import Hole

from ...app import command, fail_check, output
from ...audit_rows import LastTransaction, document
from ...render import Cell, echo_err
from ...schema import STRING, JsonKey, KeyColumn, NamedKeys, Shape, given, nullable, word
from .inputs import progress

_EXPECTED = "a snapshot, a transaction log or an export"
_MAGICS = {b"ZKSN": SNAPSHOT, b"ZKLG": LOG}


def _health(one: FileHealth) -> Cell:
    if not one.is_healthy:
        return Cell("damaged", "bad")
    return Cell("too large", "bad") if one.oversized else Cell("good", "good")


def _common(files: Sequence[FileHealth]) -> str:
    """The folder that all files have in common."""
    return os.path.commonpath([one.path.absolute().parent for one in files]) if len(files) > 1 else ""


def _below(one: FileHealth, common: str) -> str:
    return str(one.path.absolute().relative_to(common)) if common else str(one.path)


def _zxid(key: str, rank: int, header: str | None = None) -> KeyColumn:
    return KeyColumn(key, header, lambda one: hex_zxid(getattr(one, key)), rank=rank)


OVERSIZED = Shape(Oversized, "zxid", "time_ms", "bytes=size")
FILE = Shape(
    FileHealth,
    *("path", given("kind", word("snapshot", "log", "export")), "first_zxid", "last_zxid", "records"),
    *("healthy=is_healthy", "good_until_zxid", "exact=is_exact"),
    JsonKey("detail", nullable(STRING), lambda one: one.detail or None),
    "oversized",
    columns=(
        KeyColumn(
            "path",
            "FILE",
            at=_below,
            shorten="wrap",
            least=lambda files: max((len(one.path.name) for one in files), default=0),
        ),
        KeyColumn("health", cell=_health),
        *(_zxid("first_zxid", 2, "FIRST"), _zxid("last_zxid", 1, "LAST"), KeyColumn("records", rank=3)),
        *(_zxid("good_until_zxid", 1, "GOOD UNTIL"), KeyColumn("exact", rank=4)),
        KeyColumn("detail", cell=lambda one: one.detail, shorten="wrap", least=20),
    ),
)
"""The table is of the folder that all files have in common."""
HOLE = Shape(Hole, "from_zxid=first_missing", "to_zxid=last_missing")
FILES = document(
    "files",
    NamedKeys(files=Sequence[FileHealth], missing=Sequence[Hole]),  # missing between the logs of folders
    rows="files",
)


@command()
@click.argument("files", metavar="FILE|DIR...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="The same as an argument; may be repeated.",
)
def inspect(files: tuple[Path, ...], inputs: tuple[Path, ...]) -> None:
    """Check how far snapshots, logs and exports are good.

    Every checksum and length is verified. A folder stands for its snapshots, logs and exports. Exit code 3
    where a file is damaged or too large for a server with the default `jute.maxbuffer`, or transactions
    between the logs of the folders are in none of them. `exact` is a log that ends with a whole record, and a
    snapshot that is known to be the tree of one moment.

    \b
    Example:
      zkgroup audit inspect /var/lib/zookeeper/version-2
    """
    given = (*files, *inputs)
    if not given:
        raise click.UsageError(
            "name a version-2 folder or files of it, for example: zkgroup audit inspect version-2"
        )
    out = output()
    with progress() as report:
        found = []
        for path, kind in _chosen(given):
            report(f"inspecting {path.name}")
            found.append(inspected(path, kind))
    latest = max((one.last_zxid or 0 for one in found), default=0)
    folders = {path for path in given if path.is_dir()}
    of_folders = [one for one in found if folders & {one.path.parent, one.path.parent.parent}]
    holes = holes_of(of_folders)  # files that are named one by one may be some of those there are
    if not FILES.print(out, LastTransaction(latest, None), files=found, missing=holes):
        FILE.table(out, found, _common(found))
    damaged = sum(not one.is_healthy for one in found)
    if damaged:
        echo_err(f"{counted(damaged, 'file')} of {len(found)} damaged")
    oversized = sum(bool(one.oversized) for one in found)
    if oversized:
        echo_err(
            f"{counted(oversized, 'file')} of {len(found)} too large for a server's default jute.maxbuffer"
        )
    for hole in holes:
        echo_err(f"damaged: {hole.text}")
    if damaged or oversized or holes:
        fail_check()


def _chosen(given: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """The files with their kinds, those of a folder by zxid; names given twice are listed once.

    Of several files those that are neither are reported and left out: `version-2/*` names them too.
    Raises NotZooKeeperFileError where nothing is left, for a folder without any, and where nothing is there.
    """
    chosen: dict[Path, str] = {}
    refused: list[NotZooKeeperFileError] = []
    for path in given:
        try:
            chosen |= _in_folder(path) if path.is_dir() else {path: _kind(path)}
        except NotZooKeeperFileError as error:
            if isinstance(error, MissingFileError) or path.is_dir():
                raise
            refused.append(error)
    if refused and not chosen:
        raise refused[0]
    for one in refused:
        echo_err(f"note: left out: {one}")
    yield from chosen.items()


def _in_folder(path: Path) -> dict[Path, str]:
    content = folder_content(path)
    for skipped in (each for server in content.servers for each in server.skipped):
        echo_err(f"note: left out: {skipped} is no regular file")
    for note in content.notes:
        echo_err(f"note: {note}")
    return content.kinds


def _kind(path: Path) -> str:
    """By its name, else by its first bytes. Raises NotZooKeeperFileError."""
    named = ServerFile.of(path)
    if named is not None:
        return named.kind
    with suppress(DamagedFileError, NotZooKeeperFileError):
        if begins_as_export(path):
            return EXPORT
    with FileBytes(path) as file:
        try:
            magic = file.read(4)
        except DamagedFileError as error:
            raise NotZooKeeperFileError(str(path), _EXPECTED, f"damage: {error.found}") from error
    if magic not in _MAGICS:
        raise NotZooKeeperFileError(str(path), _EXPECTED, f"a file that starts with {bytes_text(magic)}")
    return _MAGICS[magic]
