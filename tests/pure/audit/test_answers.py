"""Who owned a partition, what was written to its offset, and what each session was."""

from __future__ import annotations

from tests.pure.audit.histories import Case, cases

TABLE = """
owners
Each end of an ownership is distinguished: release, deletion by another session, end of the session, none yet.
    new either; open 1; open 2; first: claim g t-0 g_a-0 1; released: release g t-0 1; second: claim_ours g
      t-0 g_a-1 1; stolen: release g t-0 2; third: claim g t-0 g_a-0 1; +70; expired: expire 1; fourth: claim
      g t-0 g_b-0 2
    > g_a-0 0x1 first..released release by 0x1
    > g_a-1 0x1 second..stolen deleted_by_other by 0x2
    > g_a-0 0x1 third..expired session_end by 0x1
    > g_b-0 0x2 fourth.. open
A hand-over between threads in one multi is a release and a claim.
    first: claim g t-0 g_a-0 1; moved: multi 1 & deletion /consumers/g/owners/t/0 & creation
      /consumers/g/owners/t/0 g_a-1 ephemeral
    > g_a-0 0x1 first..moved release by 0x1
    > g_a-1 0x1 moved.. open
Claims of another partition or group, and commits, are no owners of the partition asked for.
    claim g t-1 g_a-0 1; commit g t-0 5 1; claim h t-0 h_a-0 1
    > nothing
An owner of the snapshot lives since its creation.
    new zxid=100; seed /consumers/g/owners/t/0 'no thread' zxid=9 ms=-33 session=5; fail 1
    > no thread 0x5 #9.. -33.. open
Where the log lacks the deletion the next claim ends it, by nobody known.
    first: claim g t-0 g_a-0 1; again: claim g t-0 g_b-0 2
    > g_a-0 0x1 first..again session_end
    > g_b-0 0x2 again.. open

offsets
Every write is listed with its member and ownership: claims, commits, resets and deletions are told apart.
    join g g_a 0xa; join g g_b 0xb; claimed: claim_ours g t-0 g_a-0 0xa; committed: commit g t-0 7 0xa;
      release g t-0 0xa; claim g t-0 g_b-0 0xb; zombie: commit g t-0 5 0xa; reset: multi 0xc & setting
      /consumers/g/offsets/t/0 3 & creation /consumers/g/resets/t-0 '{}'; deleted: delete
      /consumers/g/offsets/t/0 0xc
    > claim 0xa g_a claimed None -> -1, owned by g_a-0
    > commit 0xa g_a committed -1 -> 7, owned by g_a-0
    > commit 0xa g_a zombie 7 -> 5, not owned by g_b-0 rewind
    > reset 0xc reset 5 -> 3, not owned by g_b-0 rewind
    > deletion 0xc deleted 3 -> None, not owned by g_b-0
A claim that writes what was there is none, and one that moves it is a commit.
    a: commit g t-0 4 0xb; b: claim_ours g t-0 g_a-0 0xa 4; c: commit g t-0 4 0xa; release g t-0 0xa; d:
      claim_ours g t-0 g_b-0 0xb 9
    > commit 0xb a None -> 4, unknown by None
    > claim 0xa b 4 -> 4, owned by g_a-0
    > commit 0xa c 4 -> 4, owned by g_a-0
    > commit 0xb d 4 -> 9, owned by g_b-0
A commit before the release in its transaction owned the partition.
    a: claim_ours g t-0 g_a-0 0xa; b: multi 0xa & setting /consumers/g/offsets/t/0 4 & deletion
      /consumers/g/owners/t/0
    > claim 0xa a None -> -1, owned by g_a-0
    > commit 0xa b -1 -> 4, owned by g_a-0
What a snapshot held comes first with its own time; who wrote and who owned it is not known.
    new zxid=100; seed /consumers/g/offsets/t/0 40 zxid=8 ms=-9000 mtime_ms=-1000; a: commit g t-0 41 0xa
    > snapshot 0x0 #8 -1000..-1000 None -> 40, unknown by None
    > commit 0xa a 40 -> 41, unknown by None
Other partitions and groups and failed writes are not there; an offset that is no number is, without one.
    commit g t-1 1 0xa; commit h t-0 1 0xa; a: create /consumers/g/offsets/t/0 seven 0xa; multi 0xa & setting
      /consumers/g/offsets/t/0 8 & error -103
    > commit 0xa a None -> None, unknown by None

sessions
A session is listed from its start to its end: what it was, wrote, how silent it was, and what went with it.
    new either; opened: open 0x10000000000000a; join g g_a 0x10000000000000a; 2 times (claim g t-{n} g_a-0
      0x10000000000000a); release g t-0 0x10000000000000a; fail 0x10000000000000a; multi 0x10000000000000a &
      creation /x & creation /y; +7000; ended: expire 0x10000000000000a
    > 0x10000000000000a of 1, 6000 ms opened..ended expired writes 6, silent 7000 ms, 2 of 3 ephemerals g/g_a
Sessions from before the log come first; an open one has the ephemerals that it has at the end.
    new zxid=100; seed_session 0xa0fffffffffffffb 9000; seed /brokers/ids/7 '{}' zxid=5
      session=0xa0fffffffffffffb; seed /controller '{}' zxid=6 session=0xa0fffffffffffffb; a: open 0xa; b:
      close 0xa; c: open 0xb; 2 times (claim g t-{n} g_b-0 0xb); +1000; delete /consumers/g/owners/t/1 0xd
    > 0xa0fffffffffffffb of 160, 9000 ms open writes 0, silent None ms, 2 of 2 ephemerals 7 controller
    > 0xd of 0, None ms open writes 1, silent 0 ms, 0 of 0 ephemerals
    > 0xa of 0, 6000 ms a..b closed writes 0, silent 0 ms, 0 of 0 ephemerals
    > 0xb of 0, 6000 ms c.. open writes 2, silent 1000 ms, 1 of 2 ephemerals
Neither persistent znodes nor those of a refused multi are a session's; one that it failed to drop stays.
    a: come g g_a 0xa; create /persistent '' 0xa; multi 0xa & creation /never x ephemeral & error -103; multi
      0xa & deletion /consumers/g/ids/g_a & error -103
    > 0xa of 0, 6000 ms #1.. open writes 4, silent 0 ms, 1 of 1 ephemerals g/g_a
"""


@cases(TABLE)
def test_answers(case: Case) -> None:
    """Each history has the rows that are written below it, and no others."""
    case.check()
