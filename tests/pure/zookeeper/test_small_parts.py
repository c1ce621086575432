"""Addresses, settings, error numbers, the announcer, the watch tables, the clock."""

from __future__ import annotations

import importlib.util
import pickle
import threading
from pathlib import Path

import pytest
from kazoo.exceptions import EXCEPTIONS

from tests.waiting import PATIENCE_S, happened, joined
from zkgroup import Admin
from zkgroup.errors import ConfigError
from zkgroup.model.requests import Code, NotSent, Refused, Unanswered
from zkgroup.testing import MemoryZooKeeper
from zkgroup.zookeeper import CREATOR_ACL, Acl, ClientSettings, Digest, Sasl, Secret, Tls, ZooKeeperClient
from zkgroup.zookeeper.bulk_requests import Support
from zkgroup.zookeeper.client import EventDispatcher, SystemClock
from zkgroup.zookeeper.requests import Watcher, Watches
from zkgroup.zookeeper.settings import Address
from zkgroup.zookeeper.wire import EventType, refusal


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("host", "host:2181", ""),
        ("a:1,b:2,c", "a:1,b:2,c:2181", ""),
        ("a:1,b:2/x/y", "a:1,b:2", "/x/y"),
        (" a:1 , b:2/x/ ", "a:1,b:2", "/x"),
        ("[::1]:2182/z", "[::1]:2182", "/z"),
        ("a:1/", "a:1", ""),
    ],
)
def test_an_address_names_servers_and_chroot(text: str, servers: str, chroot: str) -> None:
    """The usual form, with the usual port where none is given."""
    address = Address.parse(text)
    assert (address.servers, address.chroot, str(address)) == (servers, chroot, servers + chroot)


def test_a_client_in_the_place_of_the_address_is_refused_with_words() -> None:
    """It has a name of its own in every class that needs an ensemble."""
    client = MemoryZooKeeper().client()
    with pytest.raises(ConfigError, match="a client is given as `client=`"):
        Admin(client)  # type: ignore[arg-type]
    client.close()


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:99999", "a:1//x", "a:1/../x", "/x", "user@a:1", "a:1?x"])
def test_a_wrong_address_is_named(text: str) -> None:
    """Before anything is connected to."""
    with pytest.raises(ConfigError, match="ZooKeeper address"):
        ZooKeeperClient(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h1:2181/c,h2:2181/c", "one chroot, behind the last server, .*write 'h1:2181,h2:2181/c'"),
        ("h1/c/d/, h2/c/d", "one chroot, .*write 'h1,h2/c/d'"),
        ("h1/c,h2", "one chroot, behind the last server, found '/c,h2'$"),
        ("zookeeper://h1:2181,h2:2181/c", "no scheme, found 'zookeeper://'; write 'h1:2181,h2:2181/c'"),
        ("http://h1:2181", "no scheme, found 'http://'; write 'h1:2181'"),
        ("h1:2181,zk://h2:2181", "no scheme, .*write 'h1:2181,h2:2181'"),
    ],
)
def test_addresses_of_other_programs_are_refused_with_the_right_one(text: str, words: str) -> None:
    """They used to be chroots that do not exist, and ports that are no numbers."""
    with pytest.raises(ConfigError, match=f"ZooKeeper address .*: expected {words}"):
        Address.parse(text)


def test_secrets_do_not_show_themselves() -> None:
    """In no representation of the settings, and in no pickle."""
    settings = ClientSettings(
        auth=Digest("me", Secret("canary")), tls=Tls(ca_file="ca", key_password=Secret("canary"))
    )
    for text in (
        repr(settings),
        str(settings),
        f"{settings.auth}",
        repr(Sasl(username="u", password=Secret("canary"))),
    ):
        assert "canary" not in text
    with pytest.raises(TypeError):
        pickle.dumps(settings)


def test_a_digest_comes_from_a_file(tmp_path: Path) -> None:
    """One line, `user:password`; the password may hold colons."""
    file = tmp_path / "digest"
    file.write_text("me:pass:word\n")
    assert Digest.from_file(file).credential == "me:pass:word"


@pytest.mark.parametrize("content", ["", "\n", "no colon", ":x"])
def test_a_digest_file_that_cannot_be_used_is_named(tmp_path: Path, content: str) -> None:
    """Without its content."""
    file = tmp_path / "digest"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"digest|secret"):
        Digest.from_file(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        Digest.from_file(tmp_path / "none")


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_timeout_ms": 0},
        {"request_timeout_ms": -1},
        {"max_request_bytes": 0},
        {"max_in_flight": 0},
        {"bulk_paths": 0},
        {"acl": ()},
        {"acl": CREATOR_ACL},
        {"acl": CREATOR_ACL, "tls": Tls(ca_file="ca")},
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, object]) -> None:
    """The message names the setting."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ClientSettings(**wrong)  # type: ignore[arg-type]


def test_the_creator_is_known_by_credentials_or_by_a_certificate() -> None:
    """Otherwise the server would refuse every create."""
    assert ClientSettings(acl=CREATOR_ACL, auth=Digest("me", Secret("x"))).acl == CREATOR_ACL
    assert ClientSettings(acl=CREATOR_ACL, tls=Tls(cert_file="c", key_file="k")).acl == CREATOR_ACL


def test_wrong_credentials_are_named() -> None:
    """Each combination that could not work."""
    for make in (
        lambda: Acl("rx", "world", "anyone"),
        lambda: Sasl(mechanism="PLAIN"),
        lambda: Sasl(username="u"),
        lambda: Tls(cert_file="c"),
        lambda: Digest("a:b", Secret("")),
    ):
        with pytest.raises(ConfigError):
            make()


def test_kerberos_without_its_package_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """pure-sasl would say so on the connection's thread only, again and again."""
    there = importlib.util.find_spec("puresasl")
    monkeypatch.setattr(importlib.util, "find_spec", {"puresasl": there}.get)
    with pytest.raises(ConfigError, match="pip install kerberos"):
        Sasl(mechanism="GSSAPI")

    monkeypatch.setattr(importlib.util, "find_spec", {"puresasl": there, "winkerberos": there}.get)
    assert Sasl(mechanism="GSSAPI").options()["mechanism"] == "GSSAPI"


def test_every_error_number_that_kazoo_knows_has_a_meaning() -> None:
    """Unknown ones are OTHER; a write that may have been applied is never a refusal."""
    meanings = {number: refusal(number, "/p") for number in EXCEPTIONS}
    assert meanings[-101] == Refused(Code.NO_NODE, "/p")
    assert meanings[-102] == Refused(Code.NO_AUTH, "/p")
    assert meanings[-103] == Refused(Code.BAD_VERSION, "/p")
    assert meanings[-110] == Refused(Code.NODE_EXISTS, "/p")
    assert meanings[-125] == Refused(Code.QUOTA_EXCEEDED, "/p")
    assert all(isinstance(meanings[number], NotSent) for number in (-112, -118, -124, -127))
    assert all(isinstance(meanings[number], Unanswered) for number in (-4, -7, -122))
    assert refusal(-9999, "/p") == Refused(Code.OTHER, "/p")


def test_every_code_but_other_has_a_number() -> None:
    """Every code is one that the server can return."""
    told = {refusal(number, "/p") for number in range(-130, 0)}
    assert {outcome.code for outcome in told if isinstance(outcome, Refused)} == set(Code)


def test_actions_posted_by_an_action_run_after_it() -> None:
    """In the order posted, on whichever thread is at it."""
    announcer, told = EventDispatcher(), list[str]()

    def first() -> None:
        announcer.post(lambda: told.append("third"))
        announcer.run()
        told.append("first")

    announcer.post(first, lambda: told.append("second"))
    announcer.run()
    assert told == ["first", "second", "third"]


def test_an_action_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged."""
    announcer, told = EventDispatcher(), list[str]()
    announcer.post(lambda: 1 / 0, lambda: told.append("told"))  # type: ignore[arg-type,return-value]
    announcer.run()
    assert told == ["told"]
    assert "listener" in caplog.text


def test_actions_never_overlap() -> None:
    """A second thread leaves its action to the thread that runs one."""
    announcer, inside, released = EventDispatcher(), threading.Event(), threading.Event()
    told: list[str] = []

    def slow() -> None:
        inside.set()
        happened(released)
        told.append("slow")

    announcer.post(slow)
    thread = threading.Thread(target=announcer.run)
    thread.start()
    happened(inside)
    announcer.post(lambda: told.append("quick"))
    announcer.run()
    assert told == []
    released.set()
    joined(thread)
    assert told == ["slow", "quick"]


@pytest.mark.parametrize(
    ("kind", "data", "children"),
    [
        (EventType.CREATED, True, False),
        (EventType.DATA_CHANGED, True, False),
        (EventType.CHILDREN_CHANGED, False, True),
        (EventType.DELETED, True, True),
        (-2, False, False),
    ],
)
def test_an_event_fires_the_watches_of_its_path(kind: int, data: bool, children: bool) -> None:
    """Each once, and only at this path."""
    watches, told = Watches(), list[str]()
    for path in ("/a", "/b"):
        watches.add(Watcher(f"data {path}", told.append), path, children=False)
        watches.add(Watcher(f"children {path}", told.append), path, children=True)
    for _ in range(2):
        for watcher in watches.fired(kind, "/a"):
            watcher.fire()
    assert told == ["data /a"] * data + ["children /a"] * children


def test_a_watch_fires_at_most_once() -> None:
    """Even if it is in two tables."""
    told: list[str] = []
    watcher = Watcher("/a", told.append)
    watcher.fire()
    watcher.fire()
    assert told == ["/a"]


def test_the_clock_goes_forward_in_milliseconds() -> None:
    """Its wall clock too counts milliseconds."""
    clock = SystemClock()
    readings = [clock.now_ms() for _ in range(100)]
    assert readings == sorted(readings)
    assert clock.wall_ms() > 1_700_000_000_000


def test_what_is_known_of_a_server_can_be_forgotten() -> None:
    """A server is probed once; one that fails on a bulk read is probed again."""
    support, server = Support(), ("127.0.0.1", 1)
    answers, told, asked = [True, False], [], []

    def probe() -> bool:
        asked.append(server)
        return answers.pop(0)

    for _ in range(2):
        support.find_out(server, probe, told.append)
        support.join(PATIENCE_S)
        assert support.known(server) is told[-1]
        support.forget(server)
        assert support.known(server) is None
    assert (told, len(asked)) == ([True, False], 2)


def test_a_probe_without_an_answer_leaves_nothing_behind() -> None:
    """Waiting callers read path by path this time; the next connection probes again."""
    support, server, told = Support(), ("127.0.0.1", 1), []

    def probe() -> bool:
        raise OSError("nobody there")

    support.find_out(server, probe, told.append)
    support.join(PATIENCE_S)

    assert told == [False]
    assert support.known(server) is None


def test_a_client_that_closes_while_a_probe_begins_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is known before it has started, and cannot be joined before that."""
    support, start = Support(), threading.Thread.start
    failed: list[BaseException] = []
    closers: list[threading.Thread] = []

    def close() -> None:
        try:
            support.join(PATIENCE_S)
        except RuntimeError as error:
            failed.append(error)

    def close_and_start(thread: threading.Thread) -> None:
        closers.append(threading.Thread(target=close, name="closing client"))
        start(closers[0])
        closers[0].join(0.1)  # as far as it gets by then
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", close_and_start)
    told: list[bool] = []
    support.find_out(("h", 1), lambda: True, told.append)
    monkeypatch.undo()
    joined(closers[0])
    support.join(PATIENCE_S)

    assert (failed, told) == ([], [True])
