"""Lines out of a stream of bytes, whoever feeds it and however slowly."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

from zkgroup.errors import ConfigError
from zkgroup.lines.producer import LineProducer
from zkgroup.lines.producing import LINE_BYTES_MAX
from zkgroup.model import TopicPartition

CHUNK_BYTES = 64 * 1024
WAIT_S = 1.0

Choose = Callable[[bytes], TopicPartition]
"""Where a line goes. Raises ConfigError for a line that goes nowhere."""


class LineSplitter:
    """Takes bytes as they come and gives lines without their newlines, with their numbers from 1 on."""

    def __init__(self, name: str) -> None:
        """`name` of the stream, for errors."""
        self._name = name
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self.number = 0
        """Of the last line given."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that end in these bytes. Raises ConfigError where one gets longer than a line may be."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            yield self._line()
        self._keep(rest)

    def finish(self) -> Iterator[bytes]:
        """The stream has ended: what stands behind the last newline is a line too, unless it is empty."""
        if self._rest_bytes:
            yield self._line()

    def at(self, error: Exception) -> ConfigError:
        """What is wrong with the last line that was given, with its place."""
        return ConfigError(f"{self._name}:{self.number}: {error}")

    def _keep(self, part: bytes) -> None:
        self._rest.append(part)
        self._rest_bytes += len(part)
        if self._rest_bytes > LINE_BYTES_MAX:
            raise ConfigError(
                f"{self._name}:{self.number + 1}: expected at most {LINE_BYTES_MAX} bytes, found more"
            )

    def _line(self) -> bytes:
        line = b"".join(self._rest)
        self._rest.clear()
        self._rest_bytes = 0
        self.number += 1
        return line


def append_all(
    producer: LineProducer, stream: BinaryIO, name: str, choose: Choose, taken: Callable[[], None]
) -> None:
    """Appends every line of a stream; lines travel while it waits for more of them.

    `taken` is called after each line. Bytes are taken as they are; only a newline ends a line.

    Raises:
        ConfigError: a line is too long, or `choose` refuses it, with name and line number; those before it
            have been taken.
        LinesNotAppendedError, StoreUnavailableError: see `LineProducer.append`.
    """
    splitter = LineSplitter(name)

    def take(lines: Iterator[bytes]) -> None:
        for line in lines:
            try:
                topic_partition = choose(line)
            except ConfigError as error:
                raise splitter.at(error) from error
            producer.append(topic_partition, line)
            taken()

    for chunk in _chunks(producer, stream):
        take(splitter.feed(chunk))
    take(splitter.finish())


def _chunks(producer: LineProducer, stream: BinaryIO) -> Iterator[bytes]:
    file = _slow_file(stream)
    if file is None:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
            producer.work()
        return
    while True:
        while not select.select([file], [], [], 0)[0]:
            producer.work(WAIT_S, readable=file)
        chunk = os.read(file, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def _slow_file(stream: BinaryIO) -> int | None:
    """The descriptor of a pipe, a socket or a terminal; None for files, which never wait."""
    try:
        file = stream.fileno()
    except (OSError, AttributeError):
        return None
    mode = os.fstat(file).st_mode
    waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(file)
    return file if waits else None
