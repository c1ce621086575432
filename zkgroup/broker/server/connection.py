"""One client's connection to a broker: reads its requests, and sends it the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from zkgroup.broker.server.connection_choice import Doing, Peer
from zkgroup.broker.server.handlers import ANONYMOUS, NO_ANSWER, Answer, Later, RequestContext
from zkgroup.broker.server.logins import FRAME_BYTES_MAX, Login
from zkgroup.broker.server.metadata_requests import UNSUPPORTED_VERSION
from zkgroup.broker.server.port import CameBy, Port, nothing
from zkgroup.errors import CorruptFrameError, UnencodableError, UnsupportedRequestError, WireError
from zkgroup.runtime.logs import get_logger, limited
from zkgroup.wire.messages import (
    SIZE,
    Api,
    FrameSplitter,
    RequestHeader,
    Response,
    ResponseHeader,
    decode_request,
    encode,
    framed,
    response_buffers,
)
from zkgroup.wire.metadata import MetadataResponse, body_in_pieces
from zkgroup.wire.primitives import TooManyItemsError
from zkgroup.wire.schema import Buffer

_log = get_logger("zkgroup.broker")
P = ParamSpec("P")
T = TypeVar("T")

AHEAD_BYTES_MAX = 1024 * 1024
"""Most bytes to read while a request is answered; a closed connection is not noticed behind more bytes."""
SEND_BYTES = 256 * 1024
"""Most bytes of one write: the transport copies what the client has not received yet."""

ITEMS_AT_ONCE = 2_000
"""Most items of a request that are decoded on the event loop: they take some 5 ms."""
REQUESTS_AT_ONCE = 32
"""Most requests of a connection that are answered in one turn of the event loop."""


class Connection(asyncio.BufferedProtocol):
    """One client's connection: reads requests and sends answers until the connection ends.

    Requests are handled one after the other. A handler is called where the request is read, in the same turn
    of the loop. A `Later` that it returns is answered where it is given, without a task. A coroutine is run
    by the task that calls `serve`, in the next turn; so is the rest of an answer that one write does not
    take. The cancellation of that task ends the request that it runs.

    When the client has left, each request that was read still reaches its handler, as at Kafka
    (org.apache.kafka.common.network.Selector, `closingChannels`): a producer with acks=0 may close behind its
    last records. It is given up where it waits, and no answer is sent.
    """

    def __init__(self, port: Port, came_by: CameBy | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._came_by = came_by or CameBy()
        self.principal = ANONYMOUS
        """The client, as its login or its certificate has shown."""
        self._chunk = port.chunk
        self._limits = port.limits
        self._respond = port.respond
        self._served = port.served
        self._on_confirmed = port.on_confirmed if self._came_by.is_inter_broker else nothing
        self._port = port
        self.opened_s = self._loop.time()
        self._login = self._came_by.login
        bytes_max = self._limits.request_bytes_max
        self._splitter = FrameSplitter(min(bytes_max, FRAME_BYTES_MAX) if self._login else bytes_max)
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        """The future that the task waits for while it has no work; None while it has."""
        self._raised: Exception | None = None
        """An error that the task has to raise."""
        self._rest: Coroutine[Any, Any, None] | None = None
        """Work of the task that it has not begun."""
        self._later: Later[Answer] | None = None
        """The answer that is given later."""
        self._header: RequestHeader
        """Of the request whose answer is given later."""
        self._in_turn = 0
        """Requests that were answered since other connections had a turn of the loop."""
        self._answered_bytes = 0
        """Bytes of the request that is answered now."""
        self._writable: asyncio.Future[None] | None = None
        """Is done when the client has received the last bytes; None without such bytes."""
        self._is_reading = True
        self._is_sending = False
        self._is_at_end = False
        """True if the client sends nothing more."""
        self._end: Exception | None = None
        """The reason of the end, once something other than the task has ended the connection."""
        self._is_cut = False
        """True if the requests that were read are dropped at the end."""
        self._is_decoding = False
        """True while the request that the task runs has not reached its handler."""
        self._giving_up: asyncio.Handle | None = None
        self._lost = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """The time at which the timer fires."""
        self._deadline: float | None = None
        """The time at which the connection times out; None without a limit, while a request is handled."""
        self._overdue = ""
        """The text of that timeout: the thing that has not happened."""
        self.peer = Peer("unknown", 0)
        self.held = 0
        """Buffered bytes: requests without an answer, and an answer not yet received.

        A small answer that the system has taken at once is not counted."""
        self.moved = 0
        """Number of its last move: the first byte of a request, or a whole one."""

    @property
    def transport(self) -> asyncio.Transport:
        """Its transport, once it is made."""
        return self._transport

    @property
    def has_asked(self) -> bool:
        """True if a whole request has come, and the client has logged in where it has to."""
        return self._answered_bytes > 0 and (self._login is None or self._login.is_done)

    @property
    def doing(self) -> Doing:
        """Its present work."""
        if not self.held:
            return Doing.NOTHING
        return Doing.WAITING if self._deadline is None else Doing.SENDING

    async def serve(self) -> None:
        """Serves the client until the connection ends, then closes it; also if it is cancelled."""
        self._task = asyncio.current_task()
        try:
            await self._serve()
        except Exception as error:  # noqa: BLE001  # reported; other connections are served
            self._report(error)
        finally:
            # Not `close`: that would wait until the client has received the rest of an answer.
            self._transport.abort()
            self._drop_all()
            await self._lost

    def _drop_all(self) -> None:
        """Drops the bytes and the request that it has, and what would keep it alive in a cycle.

        An error that has ended it has frames of it in its traceback.
        """
        self._end = EOFError("the connection was closed")
        self._task = self._raised = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.release_held()
        self._splitter = FrameSplitter(0)
        self._drop_later()
        self._keep()

    def _drop_later(self) -> None:
        if self._later is not None:
            self._later.drop()
            self._later = None

    def _report(self, error: Exception) -> None:
        """Logs why the connection is closed."""
        match error:
            case WireError():
                _log.warning("connection of %s closed: %s", self.peer, error, extra=limited())
            case TimeoutError():
                # An idle connection that times out is normal and logs no warning.
                level = logging.WARNING if self.held else logging.DEBUG
                _log.log(level, "connection of %s closed: %s", self.peer, error, extra=limited())
            case OSError() | EOFError():
                _log.debug("connection of %s lost: %s", self.peer, error)
            case UnencodableError():
                _log.error(
                    "connection of %s closed, the answer cannot be encoded: %s",
                    self.peer,
                    error,
                    extra=limited(),
                )
            case _:
                _log.error("connection of %s closed by a bug", self.peer, exc_info=error, extra=limited())

    def abort(self) -> None:
        """Closes it before it is served."""
        self._transport.abort()
        self._drop_all()

    def cut_off(self, why: str) -> None:
        """Closes the connection at once; its answers are dropped."""
        _log.warning("connection of %s cut off: %s", self.peer, why, extra=limited())
        self._transport.abort()
        self.release_held()
        self._cut_by(EOFError(why))

    def release_held(self) -> None:
        """Sets the buffered bytes to 0."""
        self._hold(-self.held)

    def _hold(self, more: int) -> None:
        self.held += more
        self._port.held += more
        if self._port.held > self._limits.buffered_bytes_max:
            self._port.on_full()

    def _cut_by(self, error: Exception) -> None:
        """Ends the task. The request that it runs reaches its handler; those behind it are dropped."""
        self._is_cut = True
        self._end_by(error)

    def _end_by(self, error: Exception) -> None:
        """Ends the task. The requests that were read reach their handlers first."""
        if self._end is None:
            self._end = error
            self._give_up_soon()

    def _give_up_soon(self) -> None:
        """Cancels the request that the task runs or waits for, once it has reached its handler."""
        if self._giving_up is None:
            self._giving_up = self._loop.call_soon(self._give_up)

    def _give_up(self) -> None:
        self._giving_up = None
        if self._task is not None and not self._is_decoding:
            self._task.cancel()

    def _keep(self) -> None:
        """Takes `_give_up_soon` back: the request has ended by itself."""
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    async def _serve(self) -> None:
        rest = self._answer_read()
        while True:
            while rest is not None:
                if self._end is not None:
                    self._give_up_soon()
                try:
                    await rest
                except asyncio.CancelledError:
                    if self._end is None:
                        raise
                self._keep()
                rest = self._answer_read()
            if self._end is not None:
                self._report(self._end)
                return
            self._idle = self._loop.create_future()
            try:
                await self._idle
            except asyncio.CancelledError:
                if self._end is None:
                    if self._rest is None:
                        raise
                    self._cut_by(EOFError("the connection is closed, and a request came in that turn"))
            finally:
                self._idle = None
            raised, self._raised = self._raised, None
            try:
                if raised is not None:
                    raise raised
            finally:
                raised = None  # else it and this frame would keep each other
            rest, self._rest = self._rest or self._answer_read(), None

    def _answer_read(self, is_begun: bool = False) -> Coroutine[Any, Any, None] | None:
        """Answers the requests that have been read, until one waits. Returns the rest, work of the task.

        is_begun: whether the time limit of the next request already runs.
        """
        while self._in_turn < REQUESTS_AT_ONCE:
            if self._is_at_end and self._end is None:
                self._end = EOFError("the client has left")
            if self._end is not None:
                self._drop_later()
                if self._is_cut:
                    return None
            elif self.peer.muted_until_s:
                return self._stay_mute()
            frame = self._splitter.next_frame()
            if frame is None:
                if self._end is not None:
                    return None
                if not is_begun:
                    self._limit_wait()
                if not self._is_reading:
                    self._go_on_reading()
                return None
            self._in_turn += 1
            is_begun = False
            self._deadline = None
            self._port.moves = self.moved = self._port.moves + 1
            self._answered_bytes = SIZE.size + len(frame)
            if not self._is_reading:
                self._pause_if_far_ahead()
            rest = self._begin(frame)
            if rest is not None or (self._later is not None and self._end is None):
                return rest
        self._in_turn = 0
        return asyncio.sleep(0)

    async def _stay_mute(self) -> None:
        """Reads nothing of a client that has used up a quota, until it may go on."""
        if self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()
        self._limit(self._idle_ms, "it was to wait for its quota, and no request came")
        until_s, self.peer.muted_until_s = self.peer.muted_until_s, 0.0
        await asyncio.sleep(until_s - self._loop.time())

    def _begin(self, frame: bytes) -> Coroutine[Any, Any, None] | None:
        """Begins to answer a request. Returns the work that is left to the task."""
        if self._login is not None and not self._login.admits(frame, self._loop.time()):
            return self._log_in(self._login, frame)
        try:
            header, request = self._timed(decode_request)(frame, self._served, ITEMS_AT_ONCE)
        except UnsupportedRequestError as error:
            return self._refuse_version(error)
        except TooManyItemsError:
            return self._answer_large(frame)
        answer = self._respond(self._context(header), request)
        if not isinstance(answer, Later):
            return self._answer(header, answer)
        if answer.is_given:
            return self._send(header, answer.value)
        self._later, self._header = answer, header
        answer.then(self._is_given)
        return None

    def _timed(self, work: Callable[P, T]) -> Callable[P, T]:
        time = self.peer.time
        return work if time is None else time.measured(work)

    def _context(self, header: RequestHeader) -> RequestContext:
        return RequestContext(header, self.peer, self._came_by.listener, self.principal, self._answered_bytes)

    async def _log_in(self, login: Login, frame: bytes) -> None:
        """Answers a frame of a login. A client that is refused is answered late, and disconnected."""
        now_s, hashing = self._loop.time(), login.listener.hashing
        if hashing is None:
            taken = login.take(frame, now_s)
        else:
            async with hashing:
                taken = await asyncio.to_thread(login.take, frame, now_s)
        if taken.refusal is not None:
            where = self._came_by.listener
            _log.warning(
                "listener %s: login of %s refused: %s", where, self.peer, taken.refusal, extra=limited()
            )
            if taken.is_delayed:
                await asyncio.sleep(login.listener.failure_delay_ms / 1000)
        elif login.is_done:
            self.principal = login.principal
            self._splitter.limit(self._limits.request_bytes_max)
            self._came_by.on_logged_in(self.peer)
        await self._send_buffers(list(taken.answer))
        if taken.refusal is not None:
            self._end, self._is_cut = EOFError("the login was refused"), True

    @property
    def _idle_ms(self) -> int:
        is_open = self._login is None or self._login.is_done
        return self._limits.idle_ms if is_open else min(self._limits.idle_ms, self._limits.login_ms)

    def _is_given(self, later: Later[Answer]) -> None:
        """Sends an answer that was waited for.

        What takes more than one write, and what was read meanwhile, are left to the task: the answer may be
        given within a step of another request.
        """
        self._later = None
        if self._end is not None or self._idle is None or self._idle.done():
            return  # the task is going to end
        try:
            self._rest = self._send(self._header, later.value)
        except Exception as error:  # noqa: BLE001  # the task reports it
            self._wake(error)
            return
        if self.held or self._end is not None:
            self._wake()
        else:
            self._limit(self._idle_ms, "no request came")
            if not self._is_reading:
                self._go_on_reading()

    def _wake(self, error: Exception | None = None) -> None:
        """Has the task do its work, or report an error."""
        idle, self._idle = self._idle, None
        assert idle is not None
        self._raised = error  # not in the future: a caller up the stack has that, and the error the stack
        idle.set_result(None)

    def _limit_wait(self) -> None:
        """Limits the time for the rest of the next request, or for its first byte."""
        if self.held:
            self._limit(self._limits.request_ms, "a request did not end")
            self._port.moves = self.moved = self._port.moves + 1
        else:
            self._limit(self._idle_ms, "no request came")

    def _limit(self, ms: int, overdue: str) -> None:
        """Closes the connection unless another limit is set, or none, within this time."""
        self._deadline, self._overdue = self._loop.time() + ms / 1000, overdue
        if self._timer is not None:
            if self._timer_at <= self._deadline:
                return  # it is set again when it fires: most requests set no timer
            self._timer.cancel()
        self._set_timer(self._deadline)

    def _set_timer(self, at: float) -> None:
        self._timer, self._timer_at = self._loop.call_at(at, self._check_time), at

    def _check_time(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._deadline <= self._loop.time():
            self._cut_by(TimeoutError(f"{self._overdue} in time"))
        else:
            self._set_timer(self._deadline)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # TLS passes bytes on to a transport of its own, which keeps what the system does not take; with a
        # limit of 0 an empty buffer would be a full one.
        transport.set_write_buffer_limits(high=int(self._came_by.is_tls))
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self.peer = Peer(name[0], name[1], self._on_confirmed, self._port.first_time())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        idle = self._idle
        if self._end is not None or (idle is not None and idle.done()):
            return  # it ends
        self._splitter.feed(bytes(self._chunk[:nbytes]))
        is_begun = self.held > 0
        self._hold(nbytes)
        if idle is None or self._later is not None:
            self._pause_if_far_ahead()
            return
        self._in_turn = 0
        try:
            self._rest = self._answer_read(is_begun)
        except Exception as error:  # noqa: BLE001  # the task reports it
            self._wake(error)
            return
        if self._rest is not None or self._end is not None:
            self._wake()

    def _pause_if_far_ahead(self) -> None:
        """Reads no more while a request is answered and too many bytes are behind it."""
        is_far = self.held - self._answered_bytes >= AHEAD_BYTES_MAX
        if is_far and self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()
        elif not is_far:
            self._go_on_reading()

    def _go_on_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """The client has left, or sends nothing more: what it waits for is dropped, but for an answer that is
        being sent."""
        self._is_at_end = True
        if self._idle is not None and self._later is None:
            try:
                self._splitter.finish()
            except CorruptFrameError as error:
                self._cut_by(error)
        if not self._is_sending:
            self._end_by(EOFError("the client has left"))
        return not self._came_by.is_tls  # the task closes the transport; that of TLS closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        self._end_by(exc or EOFError("the connection was lost"))
        self.resume_writing()

    async def _answer(self, header: RequestHeader, answer: Awaitable[Answer]) -> None:
        """Answers a request whose handler is a coroutine."""
        rest = self._send(header, await answer)
        if rest is not None:
            await rest

    async def _answer_large(self, frame: bytes) -> None:
        """Answers a request with many items. It is decoded, and its response encoded, on another thread: the
        loop serves the other connections meanwhile."""
        self._is_decoding = True
        try:
            header, request = await asyncio.to_thread(self._timed(decode_request), frame, self._served)
        finally:
            self._is_decoding = False
        if self._end is not None:
            self._give_up_soon()
        answer = await self._respond(self._context(header), request)
        is_sent = self._end is None
        if is_sent and isinstance(answer, Response) and not isinstance(answer, MetadataResponse):
            encoded, to = self._timed(response_buffers), header.correlation_id
            await self._send_buffers(await asyncio.to_thread(encoded, answer, to, version=header.version))
        elif (rest := self._send(header, answer)) is not None:
            await rest

    async def _refuse_version(self, error: UnsupportedRequestError) -> None:
        """Tells a client the versions of ApiVersions that are served; raises the error of another request."""
        if error.api_key != Api.API_VERSIONS or error.api_key not in self._served:
            raise error
        await self._send_buffers(response_buffers(UNSUPPORTED_VERSION, error.correlation_id))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def _send(self, header: RequestHeader, answer: Answer) -> Coroutine[Any, Any, None] | None:
        """Sends an answer, and ends its request. What one write does not take is left to the result.

        Without an answer the connection ends.
        """
        if answer is None:
            self._end, self._is_cut = EOFError("the request has no answer"), True
            return None
        if answer is not NO_ANSWER and self._end is None:
            if isinstance(answer, MetadataResponse):
                return self._send_in_pieces(header, answer)
            encoded = self._timed(response_buffers)
            buffers = encoded(answer, header.correlation_id, version=header.version)
            if len(buffers) > 1 or len(buffers[0]) > SEND_BYTES:
                return self._send_buffers(buffers)
            self._transport.write(buffers[0])
            if self._writable is not None:
                self._is_sending = True
                return self._until_taken(len(buffers[0]))
        self._hold(-self._answered_bytes)
        return None

    async def _send_in_pieces(self, header: RequestHeader, response: MetadataResponse) -> None:
        """Sends a response that is encoded in many turns of the loop."""
        head = ResponseHeader(header.correlation_id)
        parts = [encode(head, response.header_version(header.version))]
        pieces, step = body_in_pieces(response, header.version), self._timed(next)
        while (part := step(pieces, None)) is not None:
            if len(parts) > 1:
                await asyncio.sleep(0)
            parts.append(part)
        await self._send_buffers([framed(*parts)])

    async def _until_taken(self, size: int) -> None:
        """Waits until the client has received an answer of one write."""
        self._hold(size)
        await self._until_writable()
        self._is_sending = False
        self._hold(-size - self._answered_bytes)

    async def _until_writable(self) -> None:
        if self._writable is not None:
            if self._deadline is None:
                self._limit(self._limits.answer_ms, "an answer was not taken")
            await self._writable

    async def _send_buffers(self, answer: list[Buffer]) -> None:
        """Sends the buffers of an answer, each in parts that the client has received before the next one."""
        size, held = sum(map(len, answer)), 0
        self._is_sending = True
        if size > SEND_BYTES:
            self._hold(held := size)
        for buffer in answer:
            view: Buffer = buffer if len(buffer) <= SEND_BYTES else memoryview(buffer)
            for at in range(0, len(view), SEND_BYTES):
                if self._end is not None:
                    return
                self._transport.write(view[at : at + SEND_BYTES])  # of whole bytes no copy is made
                if self._writable is not None and not held:
                    self._hold(held := size)
                await self._until_writable()
        self._is_sending = False
        self._hold(-held - self._answered_bytes)
