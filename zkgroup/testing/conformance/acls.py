"""Checks of ACLs: the permission that each operation needs, matching of identities, and what getACL returns.

As servers of 3.8.4, 3.9.2 and later behave: earlier ones needed no permission for exists, and fired all
watches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkgroup.model.requests import (
    AclChange,
    AclEntry,
    Check,
    Code,
    Create,
    CreateMissing,
    CreateMissingDone,
    Delete,
    Exists,
    ListChildren,
    ListMany,
    ListManyDone,
    Multi,
    MultiRefused,
    Outcome,
    Read,
    ReadAcls,
    ReadAclsDone,
    ReadDone,
    ReadMany,
    ReadManyDone,
    Refused,
    Request,
    SetAcls,
    SetAclsDone,
    SetData,
    Znode,
    ZnodeAcl,
    ZnodeStat,
)
from zkgroup.testing.conformance.reads import quiet
from zkgroup.testing.conformance.target import AclTarget, Caller
from zkgroup.zookeeper.settings import CREATOR_ACL, CREATOR_ALL_ACL, OPEN_ACL, Acl, Digest, Secret

OWNER = Digest("owner", Secret("secret of the owner"))
OWNER_ID = "owner:ESOSnpQxalFvEUMjxUPDmXjm2II="
"""`owner:` and base64 of the SHA-1 of `owner:secret of the owner`."""
ALL = Acl("cdrwa", "digest", OWNER_ID)
OTHER = Digest("owner", Secret("another"))


def _anyone(permissions: str) -> Acl:
    return Acl(permissions, "world", "anyone")


def _code(outcome: Outcome) -> Code | None:
    return outcome.code if isinstance(outcome, (Refused, MultiRefused)) else None


def _acl(caller: Caller, path: str) -> tuple[tuple[AclEntry, ...], ZnodeStat]:
    (found,) = caller.ask(ReadAcls((path,)), ReadAclsDone).acls
    assert isinstance(found, ZnodeAcl), found
    return found.acl, found.stat


def _takes(path: str) -> Mapping[str, Sequence[Request]]:
    """The operations that need each permission on a znode with a child."""
    sequential = Create(f"{path}/n-", b"", ephemeral=True, sequential=True)
    return {
        "r": (Read(path), Exists(path), ListChildren(path), Multi((Check(path, -1),))),
        "w": (Multi((SetData(path, b"new", -1),)),),
        "c": (Multi((Create(f"{path}/new", b""),)), Multi((sequential,)), CreateMissing((f"{path}/more",))),
        "d": (Multi((Delete(f"{path}/child", -1),)),),
    }


def check_each_operation_needs_its_permission(target: AclTarget) -> None:
    """Create and delete need a permission of the parent; the ACL of the child does not matter."""
    owner, other = target.connect_as(OWNER, ALL), target.connect()
    names = ("r", "w", "c", "d", "a", "cdrwa")
    owner.write(*[Create(path, b"") for name in names for path in (f"/{name}", f"/{name}/child")])
    for name in names:
        assert target.set_acl(f"/{name}", ALL, _anyone(name), auth=OWNER) is None
    other.catch_up()
    for name in names:
        for permission, requests in _takes(f"/{name}").items():
            for request in requests:
                refused = _code(other.submit(request).outcome())
                expected = None if permission in name else Code.NO_AUTH
                assert refused is expected, f"{request} with {name}: {refused}"


def check_a_znode_keeps_the_acl_of_its_creation(target: AclTarget) -> None:
    """Created in a multi, as an ephemeral, as a missing parent; `auth` becomes the creator's digest.

    Another client with the same authentication has the creator's permissions; one with another password has
    not.
    """
    creator, again = target.connect_as(OWNER, *CREATOR_ALL_ACL), target.connect_as(OWNER)
    others = target.connect_as(OTHER), target.connect()
    creator.write(Create("/a", b""), Create("/e", b"", ephemeral=True))
    creator.ask(CreateMissing(("/a", "/m", "/m/n")), CreateMissingDone)
    paths = "/a", "/e", "/m", "/m/n"
    for caller in (again, *others):
        caller.catch_up()
    for path in paths:
        assert _acl(again, path)[0] == (AclEntry(31, "digest", OWNER_ID),)
        again.write(SetData(path, b"new", -1))
        for other in others:
            assert other.ask(Read(path), Refused) == Refused(Code.NO_AUTH, path)
    again.write(Create("/a/open", b""))
    for other in others:
        other.catch_up()
        assert _acl(other, "/a/open")[0] == (AclEntry(31, "world", "anyone"),)


def check_kafkas_paths_get_kafkas_acls(target: AclTarget) -> None:
    """`/consumers` itself is open, and nobody else reads what has secrets (kafka/zk/ZkData.scala@2.8.2)."""
    creator, stranger = target.connect_as(OWNER, *CREATOR_ACL), target.connect_as(None)
    mine, everyone = AclEntry(31, "digest", OWNER_ID), AclEntry(1, "world", "anyone")
    creator.make("/config")
    creator.write(Create("/config/users", None), Create("/config/users/ada", b"secret"))
    creator.make("/consumers", "/consumers/g", "/config/brokers")
    hidden = ("/config/users", "/config/users/ada", "/config/brokers")
    found = {path: _acl(creator, path)[0] for path in ("/config", "/consumers/g", *hidden)}

    assert found == {path: (mine,) if path in hidden else (mine, everyone) for path in found}
    assert _acl(creator, "/consumers")[0] == (AclEntry(31, "world", "anyone"),)
    refused = stranger.ask(ReadMany(("/config/users/ada", "/config")), ReadManyDone).znodes
    assert (refused[0], isinstance(refused[1], Znode)) == (Code.NO_AUTH, True)


def check_what_is_in_a_group_gets_the_groups_acl(target: AclTarget) -> None:
    """Of a client with credentials, whatever its own setting; an offset gets that of `offsets`."""
    owner, stranger = target.connect_as(OWNER, *CREATOR_ALL_ACL), target.connect_as(None)
    mine, reader = AclEntry(31, "digest", OWNER_ID), AclEntry(1, "digest", "reader:x")
    owner.make("/consumers", "/consumers/g", "/consumers/g/ids", "/consumers/g/offsets")
    everyone = AclEntry(31, "world", "anyone")
    of_group, of_offsets = (mine, AclEntry(5, "world", "anyone")), (mine, reader)
    changes = (AclChange("/consumers/g", of_group), AclChange("/consumers/g/offsets", of_offsets))
    owner.ask(SetAcls((*changes, AclChange("/consumers/g/ids", (everyone,)))), SetAclsDone)
    member = target.connect_as(OWNER)
    member.write(Create("/consumers/g/ids/m", b"", ephemeral=True), Create("/consumers/g/owners", None))
    member.make("/consumers/g/offsets/t", "/consumers/g/offsets/t/0")
    member.write(Create("/consumers/g/owners/t", None))
    stranger.write(Create("/consumers/g/views", None))

    found = {path: _acl(owner, f"/consumers/g/{path}")[0] for path in ("ids/m", "owners", "owners/t")}
    assert found == dict.fromkeys(found, of_group)
    for path in ("offsets/t", "offsets/t/0"):
        assert _acl(owner, f"/consumers/g/{path}")[0] == of_offsets
    assert _acl(owner, "/consumers/g/views")[0] == (everyone,)


def check_addresses_are_compared_by_their_leading_bits(target: AclTarget) -> None:
    """The clients of a check are on this machine, at 127.0.0.1; `auth` does not include an address."""
    owner, other = target.connect_as(OWNER, ALL), target.connect()
    for number, (address, is_here) in enumerate(
        {
            "127.0.0.1": True,
            "127.0.0.2": False,
            "127.255.0.0/8": True,
            "126.0.0.0/7": True,
            "10.0.0.0/8": False,
            "0.0.0.0/0": True,
            "::1": False,
        }.items()
    ):
        owner.write(Create(f"/{number}", b""))
        assert target.set_acl(f"/{number}", ALL, Acl("r", "ip", address), auth=OWNER) is None
        other.catch_up()
        refused = _code(other.submit(Read(f"/{number}")).outcome())
        assert refused is (None if is_here else Code.NO_AUTH), address


def check_a_multi_is_refused_as_a_whole(target: AclTarget) -> None:
    """The refusal names the first refused operation; later ones see the ACLs of those before them."""
    owner = target.connect_as(OWNER, ALL)
    caller = target.connect_as(None, Acl("cdrwa", "digest", OWNER_ID), _anyone("rw"))
    owner.write(Create("/mine", b""))
    caller.catch_up()
    caller.write(Create("/p", b""), SetData("/p", b"1", 0), Check("/p", 1))
    for operations, index in (
        ((Create("/q", b""), SetData("/mine", b"", -1)), 1),
        ((Check("/mine", -1), Create("/q", b"")), 0),
        ((Create("/q", b""), Create("/q/c", b"")), 1),
        ((Create("/q", b""), SetData("/q", b"", 7), SetData("/mine", b"", -1)), None),
    ):
        expected = MultiRefused(1, Code.BAD_VERSION) if index is None else MultiRefused(index, Code.NO_AUTH)
        assert caller.ask(Multi(operations), MultiRefused) == expected
    assert caller.ask(Read("/q"), ReadDone).znode is None
    caller.write(Create("/q", b""), Delete("/q", 0), Delete("/p", 1))


def check_permissions_are_checked_before_other_errors(target: AclTarget) -> None:
    """NoAuth before NodeExists, BadVersion, NotEmpty and a missing child; a missing parent is NoNode."""
    owner, other = target.connect_as(OWNER, ALL), target.connect()
    owner.write(Create("/mine", b""), Create("/mine/c", b""), Create("/mine/c/d", b""))
    other.catch_up()
    for operation in (
        Create("/mine/c", b""),
        Delete("/mine/none", -1),
        Delete("/mine/c", 7),
        Delete("/mine/c", -1),
        SetData("/mine", b"", 7),
        Check("/mine", 7),
    ):
        assert other.ask(Multi((operation,)), MultiRefused) == MultiRefused(0, Code.NO_AUTH), operation
    missing = Multi((Create("/none/c", b""),))
    assert other.ask(missing, MultiRefused) == MultiRefused(0, Code.NO_NODE)


def check_create_missing_needs_no_permission_for_existing_znodes(target: AclTarget) -> None:
    """The ACLs of existing znodes and their parents do not matter; a refusal has the path."""
    owner, other = target.connect_as(OWNER, ALL), target.connect()
    owner.write(Create("/mine", b""), Create("/mine/c", b""))
    other.catch_up()
    other.ask(CreateMissing(("/mine", "/mine/c")), CreateMissingDone)
    refused = other.ask(CreateMissing(("/mine/c", "/mine/d")), Refused)
    assert refused == Refused(Code.NO_AUTH, "/mine/d")


def check_bulk_reads_return_no_auth_for_protected_znodes(target: AclTarget) -> None:
    """NoAuth in place of the znode; the other znodes are read."""
    owner, other = target.connect_as(OWNER, ALL), target.connect()
    owner.write(Create("/mine", b""))
    owner.write(Create("/mine/c", b""))
    other.make("/open", "/open/x")
    paths = "/open", "/mine", "/none"
    other.catch_up()
    znodes = other.ask(ReadMany(paths), ReadManyDone).znodes
    assert [getattr(znode, "path", znode) for znode in znodes] == ["/open", Code.NO_AUTH, None]
    assert other.ask(ListMany(paths), ListManyDone) == ListManyDone((("x",), Code.NO_AUTH, None))


def check_getacl_needs_read_or_admin(target: AclTarget) -> None:
    """Without ADMIN the digest of a password is masked."""
    owner, other = target.connect_as(OWNER, ALL), target.connect()
    owner.write(Create("/n", b""))
    for permissions, shown in (
        ("w", None),
        ("cdw", None),
        ("r", "owner:x"),
        ("a", OWNER_ID),
        ("ra", OWNER_ID),
    ):
        assert target.set_acl("/n", ALL, _anyone(permissions), auth=OWNER) is None
        other.catch_up()
        (found,) = other.ask(ReadAcls(("/n",)), ReadAclsDone).acls
        if shown is None:
            assert found is Code.NO_AUTH
        else:
            assert isinstance(found, ZnodeAcl)
            mask = _anyone(permissions).mask
            assert found.acl == (AclEntry(31, "digest", shown), AclEntry(mask, "world", "anyone"))


def check_a_watch_without_read_permission_is_silent(target: AclTarget) -> None:
    """The ACL at the time of the change decides; the watch is removed in any case."""
    owner, other = target.connect_as(OWNER, ALL), target.connect()
    owner.write(Create("/n", b""))
    other.catch_up()
    refused = other.submit(Read("/n", watch=True))
    assert refused.outcome() == Refused(Code.NO_AUTH, "/n")
    created = other.submit(Exists("/new", watch=True))
    listed = other.submit(ListChildren("/", watch=True))
    listed.outcome()
    owner.write(Create("/new", b""))
    assert listed.fired() == "/"
    assert target.set_acl("/n", *OPEN_ACL, ALL, auth=OWNER) is None
    other.catch_up()
    changed = other.submit(Read("/n", watch=True))
    changed.outcome()
    assert target.set_acl("/n", ALL, auth=OWNER) is None
    owner.catch_up()
    owner.write(SetData("/n", b"1", -1))
    assert target.set_acl("/n", *OPEN_ACL, ALL, auth=OWNER) is None
    owner.catch_up()
    owner.write(SetData("/n", b"2", -1))
    other.catch_up()
    quiet(other)
    assert [refused.watched, created.watched, changed.watched] == [[], [], []]


def check_setacl_needs_admin(target: AclTarget) -> None:
    """It counts in `aversion` alone, which can be expected, and fires no watch."""
    owner = target.connect_as(OWNER, ALL)
    owner.write(Create("/n", b""))
    before = owner.stat("/n")
    watch = owner.submit(Read("/n", watch=True))
    watch.outcome()
    assert target.set_acl("/n", _anyone("cdrwa"), auth=OTHER) is Code.NO_AUTH
    assert target.set_acl("/n", ALL, _anyone("cdrw"), version=0, auth=OWNER) is None
    assert target.set_acl("/n", _anyone("cdrwa"), auth=OTHER) is Code.NO_AUTH
    assert target.set_acl("/n", _anyone("cdrwa"), version=0, auth=OWNER) is Code.BAD_VERSION
    assert target.set_acl("/n", ALL, _anyone("ra"), version=1, auth=OWNER) is None
    assert target.set_acl("/n", _anyone("cdrwa"), _anyone("cdrwa"), auth=OTHER) is None
    assert target.set_acl("/none", _anyone("cdrwa"), auth=OWNER) is Code.NO_NODE
    owner.catch_up()
    quiet(owner)
    acl = (AclEntry(31, "world", "anyone"),)
    assert _acl(owner, "/n") == (acl, before._replace(aversion=3))
    assert watch.watched == []


def check_acls_are_set_one_by_one(target: AclTarget) -> None:
    """Each is done or refused alone, in order; `auth` stands for the client's identities."""
    owner, stranger = target.connect_as(OWNER), target.connect_as(None)
    owner.make("/n", "/m")
    mine, everyone = AclEntry(31, "auth", ""), AclEntry(1, "world", "anyone")
    changes = (
        AclChange("/n", (mine, everyone), 0),
        AclChange("/none", (everyone,)),
        AclChange("/n", (everyone,), 0),
        AclChange("/m", (AclEntry(31, "digest", "nobody"),)),
    )
    stats = owner.ask(SetAcls(changes), SetAclsDone).stats

    acl, stat = _acl(owner, "/n")
    assert (acl, stat.aversion) == ((AclEntry(31, "digest", OWNER_ID), everyone), 1)
    assert stats == (stat, None, Code.BAD_VERSION, Code.INVALID_ACL)
    assert stranger.ask(SetAcls((AclChange("/n", (everyone,)),)), SetAclsDone).stats == (Code.NO_AUTH,)
    assert owner.ask(SetAcls(()), SetAclsDone) == SetAclsDone(())


def check_an_acl_that_means_nobody_is_invalid(target: AclTarget) -> None:
    """Empty, of an unknown scheme, with an id that is none, `auth` of who has not authenticated."""
    owner, caller = target.connect_as(OWNER, ALL), target.connect_as(None, Acl("r", "digest", "user"))
    owner.write(Create("/n", b""))
    refused = caller.ask(Multi((Create("/none/child", b""),)), MultiRefused)
    assert refused == MultiRefused(0, Code.INVALID_ACL)
    for acl in (
        (),
        (Acl("r", "unknown", "x"),),
        (Acl("r", "world", "somebody"),),
        (ALL, Acl("r", "digest", "user")),
        (Acl("r", "digest", "user:"),),
        (Acl("r", "digest", "user:x:y"),),
        (Acl("r", "ip", "10.0.0"),),
        (Acl("r", "ip", "10.0.0.256"),),
        (Acl("r", "ip", "10.0.0.0/33"),),
        (Acl("r", "ip", "10.0.0.0/255.0.0.0"),),
    ):
        assert target.set_acl("/n", *acl, auth=OWNER) is Code.INVALID_ACL, acl
    assert target.set_acl("/none", auth=OWNER) is Code.INVALID_ACL
    assert target.set_acl("/n", *CREATOR_ALL_ACL, auth=None) is Code.INVALID_ACL
    assert _acl(owner, "/n")[0] == (AclEntry(31, "digest", OWNER_ID),)


def check_the_next_session_authenticates_again(target: AclTarget) -> None:
    """Znodes that the client created before are readable."""
    owner = target.connect_as(OWNER, *CREATOR_ALL_ACL)
    owner.write(Create("/n", b"data"))
    owner.store.abandon(1, "test")
    owner.session(2)
    znode = owner.ask(Read("/n"), ReadDone, incarnation=2).znode
    assert znode is not None
    assert znode.data == b"data"


def check_the_end_of_a_session_takes_no_permission(target: AclTarget) -> None:
    """The end of a session deletes its ephemerals below a parent without DELETE permission."""
    reader = target.connect_as(OWNER, ALL)
    leaver = target.connect_as(OWNER, Acl("cra", "digest", OWNER_ID))
    leaver.write(Create("/p", b""), Create("/p/e", b"", ephemeral=True))
    refused = leaver.ask(Multi((Delete("/p/e", -1),)), MultiRefused)
    assert refused == MultiRefused(0, Code.NO_AUTH)
    reader.catch_up()
    watch = reader.submit(Exists("/p/e", watch=True))
    watch.outcome()
    leaver.store.close()
    assert watch.fired() == "/p/e"
