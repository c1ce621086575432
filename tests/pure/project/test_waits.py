"""Rules on how tests may wait, as far as reading the code can decide.

Whether a test reads a value too early cannot be decided in general. These rules can be, and each found real
flakes: a value that was waited for is read a second time, a wait ends by its timeout without failing the
test, or a wait has a timeout of its own, which someone will have to raise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from tests.project import ROOT, parsed, python_files, walked

WAITS = {"eventually", "becomes", "eventually_on_loop"}
BUILTINS = {
    "all",
    "any",
    "bool",
    "dict",
    "len",
    "list",
    "map",
    "max",
    "min",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
}
TIMED = {"wait", "join", "wait_for"}
OWN = {"support.join"}
"""Of the product: what it has waited for is asserted on behind it."""
PATIENCE = re.compile(r"_?(PATIENCE|TIMEOUT|WAIT|ANSWER|DEADLINE|CALL|READY|HOLD)_S")
PROGRAMS = ("tests/programs/", "tests/long/benchmarks/")

Rule = Callable[[ast.Module], Iterator[tuple[int, str]]]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def repeated_reads(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Finds an assert or assignment that repeats the read that was just waited for.

    The wait returns the value that it waited for; a second read may return another. After another call of the
    test the same read counts as a new one. Builtins and classes are no reads.
    """
    for function in walked(tree):
        if isinstance(function, FunctionNode):
            yield from _repeated_reads(function)


def _repeated_reads(function: FunctionNode) -> Iterator[tuple[int, str]]:
    waited: dict[str, int] = {}
    for statement in sorted(_simple(function), key=lambda node: node.lineno):
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        waits = [call for call in calls if _name(call) in WAITS and call.args]
        inside = {id(part) for wait in waits for part in ast.walk(wait)}
        others = [call for call in calls if id(call) not in inside and _is_read(call)]
        again = [ast.unparse(call) for call in others if ast.unparse(call) in waited]
        if isinstance(statement, ast.Assert | ast.Assign) and again:
            yield statement.lineno, f"{again[0]} was waited for in line {waited[again[0]]}"
        elif others and not isinstance(statement, ast.Assert):
            waited = {}
        waited.update((read, wait.lineno) for wait in waits for read in _reads(wait.args[0]))


def ignored_timeouts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Finds waits with a timeout whose result is ignored: `event.wait(5)`, `thread.join(5)`.

    `happened`, `joined` and `ended` of tests.waiting fail instead. In modules that use neither threads nor
    processes, methods of these names do not wait.
    """
    imported = {alias.name for node in walked(tree) if isinstance(node, ast.Import) for alias in node.names}
    if not imported & {"threading", "subprocess", "multiprocessing"}:
        return
    for node in walked(tree):
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Await):
            continue
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in TIMED:
            seconds = [*call.args[-1:], *(each.value for each in call.keywords if each.arg in _TIMEOUTS)]
            if ast.unparse(call.func) not in OWN and len(call.args) < 3 and any(map(_is_seconds, seconds)):
                yield node.lineno, ast.unparse(call)


_TIMEOUTS = ("timeout", "timeout_s")


def _is_seconds(value: ast.expr) -> bool:
    """A number of at least 1, or a name such as `WAIT_S`; less is a pause between two steps."""
    match value:
        case ast.Constant(value=int() | float() as number):
            return number >= 1
        case ast.Name(id=name):
            return name.lower().endswith("_s")
        case ast.BinOp(left=left, right=right):
            return _is_seconds(left) or _is_seconds(right)
    return False


def private_timeouts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Finds constants such as `WAIT_S = 30`, and defaults such as `timeout_s=30.0`.

    The time limit of a whole program is allowed.
    """
    for node in walked(tree):
        if isinstance(node, FunctionNode):
            given = node.args
            named = [*given.posonlyargs, *given.args]
            defaults = zip(named[len(named) - len(given.defaults) :], given.defaults, strict=True)
            for argument, value in (*defaults, *zip(given.kwonlyargs, given.kw_defaults, strict=True)):
                if argument.arg in _TIMEOUTS and isinstance(value, ast.Constant) and _is_short(value.value):
                    yield node.lineno, f"{node.name}({argument.arg}={value.value})"
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        named = [
            target for target in targets if isinstance(target, ast.Name) and PATIENCE.fullmatch(target.id)
        ]
        if named and node.value and any(isinstance(part, ast.Constant) for part in ast.walk(node.value)):
            yield node.lineno, ast.unparse(node)


def spelled_out_limits(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Finds calls that wait for a number of seconds: `future.result(30)`, `client.close(timeout_s=10)`.

    Less than 10 is a pause between two steps, or a wait that is meant to be in vain, as is any wait inside
    `pytest.raises`. More than the patience is the time limit of a whole program.
    """
    in_vain = {
        id(part)
        for node in walked(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        and any("raises" in ast.unparse(each) for each in node.items)
        for part in ast.walk(node)
    }
    for node in walked(tree):
        if not isinstance(node, ast.Call) or id(node) in in_vain or ast.unparse(node.func) in _NO_WAITS:
            continue
        limits = [each.value for each in node.keywords if each.arg in _TIMEOUTS]
        if _LIMITED.fullmatch(_called(node)):
            limits += node.args[-1:]
        if any(isinstance(each, ast.Constant) and _is_short(each.value) for each in limits):
            yield node.lineno, ast.unparse(node)


_LIMITED = re.compile(
    r"result|settimeout|timeout|create_connection|start|wait_(connected|registered|until\w*)"
)
"""Methods whose last argument is a number of seconds."""
_NO_WAITS = ("pytest.mark.timeout", "KazooClient")
"""The limit of a whole test, and the timeout of a session."""


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else _name(call)


def _is_short(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 10 <= value <= 120


def _simple(function: FunctionNode) -> Iterator[ast.stmt | ast.expr]:
    """The simple statements of a function and the heads of its blocks, without functions inside it."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, FunctionNode | ast.ClassDef):
            continue
        if isinstance(node, ast.expr) or (isinstance(node, ast.stmt) and not hasattr(node, "body")):
            yield node
        else:
            todo.extend(ast.iter_child_nodes(node))


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_read(call: ast.Call) -> bool:
    return _name(call) not in BUILTINS and not _name(call)[:1].isupper()


def _reads(read: ast.expr) -> Iterator[str]:
    """The calls that the wait repeats."""
    body = read.body if isinstance(read, ast.Lambda) else ast.Call(read, [], [])
    return (ast.unparse(call) for call in ast.walk(body) if isinstance(call, ast.Call) and _is_read(call))


def _offences(rule: Rule, *folders: str) -> list[str]:
    files = [file for folder in folders for file in python_files(folder)]
    return [
        f"{place}:{line} {text}"
        for file in files
        if not (place := file.relative_to(ROOT).as_posix()).startswith(PROGRAMS)
        if place not in ("tests/waiting.py", "tests/leaks.py", "zkgroup/testing/patience.py")
        for line, text in rule(parsed(file))
    ]


def test_no_test_on_real_servers_asserts_on_a_second_read() -> None:
    """A test asserts on the value that the wait returned."""
    assert _offences(repeated_reads, "tests/real", "tests/long", "tests/worlds") == []


def test_a_wait_that_ends_by_its_timeout_is_noticed() -> None:
    """In the pure and the wired tests, those on real servers, and in what they share."""
    assert _offences(ignored_timeouts, "tests/pure", "tests/wired", "tests/real", "tests/worlds") == []


def test_there_is_one_patience() -> None:
    """That of zkgroup.testing, for its doubles and for the tests; it costs nothing where nothing is wrong."""
    assert _offences(private_timeouts, "tests", "zkgroup/testing") == []


def test_no_wait_has_a_limit_of_its_own() -> None:
    """Also not one that is spelled out in the call."""
    assert _offences(spelled_out_limits, "tests", "zkgroup/testing") == []
