"""An import-linter contract that reads as the design does: `package -> packages it may import`."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class ArrowsContract(Contract):
    """Every direct import between packages of ours needs an arrow, and every arrow an import.

    `arrows`: one line for each package, `importer -> name name ...`; names are those below
    `zkgroup`, `zkgroup` is the root with the public names, `*` means any. A package that is
    not listed may import nothing.
    """

    arrows = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compares each import of the graph with the arrows."""
        lines: list[str] = list(self.arrows)  # type: ignore[call-overload]  # a field is its value at run time
        allowed = dict(_parse(line) for line in lines)
        offences = sorted(
            (importer, imported)
            for importer in graph.modules
            for imported in graph.find_modules_directly_imported_by(importer)
            if _forbidden(importer, imported, allowed)
        )
        used = {
            (_unit(importer), _unit(imported))
            for importer in graph.modules
            for imported in graph.find_modules_directly_imported_by(importer)
        }
        drawn = {(importer, imported) for importer, names in allowed.items() for imported in names - {"*"}}
        unused = sorted(drawn - used)
        return ContractCheck(
            kept=not offences and not unused, metadata={"offences": offences, "unused": unused}
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints one line for each import without an arrow, and for each arrow without an import."""
        for importer, imported in check.metadata["offences"]:
            output.print_error(
                f"{importer} imports {imported}: no arrow {_unit(importer)} -> {_unit(imported)}"
            )
        for importer, imported in check.metadata["unused"]:
            output.print_error(f"no module of {importer} imports {imported}: delete the arrow")


def _parse(line: str) -> tuple[str, frozenset[str]]:
    importer, arrow, names = line.partition("->")
    if not arrow:
        raise ValueError(f"expected 'package -> packages', found {line!r}")
    plain = ("*", "zkgroup")
    return importer.strip(), frozenset(n if n in plain else f"zkgroup.{n}" for n in names.split())


def _unit(module: str) -> str:
    """The package that a module counts for: `zkgroup.x`, or the root itself."""
    return ".".join(module.split(".")[:2]) if module.startswith("zkgroup.") else module.split(".")[0]


def _forbidden(importer: str, imported: str, allowed: dict[str, frozenset[str]]) -> bool:
    source, target = _unit(importer), _unit(imported)
    if target.split(".")[0] not in ("zkgroup", "zkgroup_cli") or source == target:
        return False
    names = allowed.get(source, frozenset())
    return target not in names and "*" not in names
