"""One question to each of several brokers, all at the same time, in the highest versions that both know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Final, TypeAlias, TypeVar

from zkgroup.clients.addresses import Addresses, BrokerAddress
from zkgroup.errors import AuthorizationError, BrokerAuthenticationError, WireError
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.messages import ErrorCode, Request, Response, describe
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse

TIMEOUT_MS: Final = 5_000
NO_ANSWER: Final = "no answer in time"

NOT_AUTHORIZED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)

ResponseT = TypeVar("ResponseT", bound=Response)
AnswerT = TypeVar("AnswerT")
KeyT = TypeVar("KeyT")


class QueryClient:
    """Asks one broker in the highest version that both know."""

    def __init__(self, client: BrokerClient, *, negotiates: bool) -> None:
        self._client = client
        self._negotiates = negotiates
        self._versions: dict[int, int] | None = None
        """API key to the highest version that the broker serves."""

    async def close(self) -> None:
        await self._client.close()

    @property
    def certificate_ends_s(self) -> float | None:
        """See `BrokerClient`."""
        return self._client.certificate_ends_s

    async def version(self, kind: type[Request]) -> int:
        """The highest version of a request that both know. Raises what `ask` raises."""
        return min((await self._known()).get(kind.API, 0), kind.VERSIONS[-1])

    async def serves(self, kind: type[Request]) -> bool:
        """Returns whether the broker says that it serves a request. Raises what `ask` raises."""
        return kind.API in await self._known()

    async def _known(self) -> dict[int, int]:
        if self._versions is None:
            self._versions = await self._served() if self._negotiates else {}
        return self._versions

    async def ask(self, request: Request, kind: type[ResponseT], *, version: int | None = None) -> ResponseT:
        """The response, in the highest version by default. Raises OSError, EOFError or WireError."""
        if version is None:
            version = await self.version(type(request))
        return await self._client.ask(request, kind, version=version)

    async def _served(self) -> dict[int, int]:
        answer = await self._client.ask(ApiVersionsRequest(), ApiVersionsResponse)
        return {api.api_key: api.last for api in answer.apis}


async def query(
    broker: BrokerAddress, timeout_ms: int, question: Callable[[QueryClient], Awaitable[AnswerT]]
) -> AnswerT | str:
    """The answer, or why there is none, with the broker's address. Raises BrokerAuthenticationError."""
    connection = BrokerClient(
        broker.host, broker.port, client_id="zkgroup", timeout_ms=timeout_ms, security=broker.security
    )
    client = QueryClient(connection, negotiates=broker.negotiates)
    try:
        return await question(client)
    except (OSError, EOFError, WireError) as error:
        return f"{broker.host}:{broker.port}: {getattr(error, 'strerror', None) or str(error) or NO_ANSWER}"
    finally:
        await client.close()


def at_once(questions: Sequence[Awaitable[AnswerT]]) -> list[AnswerT]:
    """The answers to all questions, in their order; on an event loop of its own."""

    async def gather() -> list[AnswerT]:
        return await asyncio.gather(*questions)

    return asyncio.run(gather()) if questions else []


Question: TypeAlias = Callable[[QueryClient, Sequence[KeyT]], Awaitable[Mapping[KeyT, AnswerT | str]]]
"""Asks one broker about some things, as partitions or groups."""


def ask_each(
    addresses: Addresses,
    brokers: Iterable[tuple[KeyT, int | str]],
    timeout_ms: int,
    question: Question[KeyT, AnswerT],
    name: str = "its broker",
    certificates: MutableMapping[int, float] | None = None,
) -> dict[KeyT, AnswerT | str]:
    """The answers of brokers, each about its own things, or why there is none.

    Raises BrokerAuthenticationError where a broker refuses the login, unless certificates are asked for, and
    ConfigError for files of certificates; nothing else.

    Args:
        addresses: of the brokers, by id.
        brokers: each thing with the broker to be asked, or why none can be.
        timeout_ms: for each answer of a broker; after the first that is late it is not asked again.
        question: asks one broker. All brokers are asked at the same time.
        name: of a broker that cannot be asked, for people; `{}` stands for its id.
        certificates: gets the end of the validity of each broker's certificate, in epoch seconds. A broker
            that refuses the login, or is not to be trusted, then costs only its own answers.
    """
    found: dict[KeyT, AnswerT | str] = {}
    own: dict[int, list[KeyT]] = {}
    reached: dict[int, BrokerAddress] = {}
    for key, broker in brokers:
        if isinstance(broker, str):
            found[key] = broker
        elif isinstance(address := addresses.get(broker, "is not registered"), str):
            found[key] = f"{name.format(broker)} {address}"
        else:
            reached[broker] = address
            own.setdefault(broker, []).append(key)

    async def ask(broker: int, keys: Sequence[KeyT]) -> Mapping[KeyT, AnswerT | str]:
        async def asked(client: QueryClient) -> Mapping[KeyT, AnswerT | str]:
            answers = await question(client, keys)
            if certificates is not None and (ends_s := client.certificate_ends_s) is not None:
                certificates[broker] = ends_s
            return answers

        try:
            answer = await query(reached[broker], timeout_ms, asked)
        except BrokerAuthenticationError as error:
            if certificates is None:
                raise
            answer = str(error)
        return dict.fromkeys(keys, answer) if isinstance(answer, str) else answer

    for answer in at_once([ask(broker, keys) for broker, keys in own.items()]):
        found |= answer
    return found


def first_answer(questions: Sequence[Awaitable[AnswerT | str]]) -> AnswerT | list[str]:
    """The first answer that is no reason why there is none; all reasons where there is no other."""

    async def first() -> AnswerT | list[str]:
        reasons = []
        for question in asyncio.as_completed(questions):
            answer = await question
            if not isinstance(answer, str):
                return answer
            reasons.append(answer)
        return reasons

    return asyncio.run(first())


def refusal(error: int) -> str:
    """The reason why there is no answer where a broker answers with an error code."""
    answer = f"its broker answers {describe(error)}"
    return f"{AuthorizationError.WORDS}: {answer}" if error in NOT_AUTHORIZED else answer
