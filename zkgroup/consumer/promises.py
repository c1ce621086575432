"""What the application waits for: futures, and what resolves them. Used on the member's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import TypeVar

from zkgroup.errors import CommitResult, MemberClosedError, MemberFailedError, ZkGroupError
from zkgroup.model.requests import Outcome

log = logging.getLogger("zkgroup.consumer")

T = TypeVar("T")


@dataclass(eq=False)
class _Waiter:
    predicate: Callable[[], bool]
    future: Future[None]


class Promises:
    """The open ones of one member; all of them are ended with it."""

    def __init__(self) -> None:
        self._waiters: list[_Waiter] = []
        self._commits: dict[int, Future[CommitResult]] = {}
        self._questions: set[Future[Outcome]] = set()

    def when(self, predicate: Callable[[], bool], future: Future[None]) -> None:
        """Done once the predicate holds: asked by every `look`."""
        self._waiters.append(_Waiter(predicate, future))

    def commit(self, commit_id: int, future: Future[CommitResult]) -> None:
        self._commits[commit_id] = future

    def committed(self, commit_id: int, result: CommitResult) -> None:
        future = self._commits.pop(commit_id, None)
        if future is not None:
            resolve(future, result)

    def question(self, future: Future[Outcome]) -> None:
        self._questions.add(future)

    def answered(self, future: Future[Outcome], outcome: Outcome) -> None:
        self._questions.discard(future)
        resolve(future, outcome)

    def look(self) -> None:
        """Something has changed: resolves the waiters whose predicate holds now."""
        if self._waiters:
            self._waiters = [waiter for waiter in self._waiters if not _is_settled(waiter)]

    def forget(self, future: Future[T]) -> None:
        """Whoever waited has given up."""
        self._waiters = [waiter for waiter in self._waiters if waiter.future is not future]

    def end(self, error: BaseException) -> None:
        """Nothing more will happen."""
        for waiter in self._waiters:
            refuse(waiter.future, error)
        for commit in self._commits.values():
            refuse(commit, error)
        for question in self._questions:
            refuse(question, error)
        self._waiters.clear()
        self._commits.clear()
        self._questions.clear()


def _is_settled(waiter: _Waiter) -> bool:
    if waiter.future.done():
        return True
    if not waiter.predicate():
        return False
    resolve(waiter.future, None)
    return True


def resolve(future: Future[T], result: T) -> None:
    """Sets the result of a future whose waiter may have cancelled it meanwhile."""
    try:
        future.set_result(result)
    except InvalidStateError:
        log.debug("nobody waits for %r any more", result)


def refuse(future: Future[T], error: BaseException) -> None:
    """As `resolve`, with an error."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        log.debug("nobody waits for %r any more", error)


def ending_error(member: str, failure: BaseException | None) -> ZkGroupError:
    """What a call on a member that has ended raises: ours as it is, the application's as a cause."""
    if failure is None:
        return MemberClosedError(f"{member} is closed")
    if isinstance(failure, ZkGroupError):
        return failure.with_traceback(None)
    error = MemberFailedError(f"{member} has failed: {failure!r}")
    error.__cause__ = failure
    return error
