"""Units and their mutants, from the files ``units.toml`` and ``equivalents.toml`` of the
testbenches.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.checks.formal.theorem import load
from sim.checks.mutation.mutants import Mutant, mutants_of

__all__ = ["Unit", "reasons_of", "units_of"]

_OWN, _BROADER = "own", "broader"
_PREFIX = "prove_"


@dataclass(frozen=True)
class Unit:
    """A unit of the hardware, or a folder of host code.

    Attributes:
        name: The folder in ``rtl`` or in ``sim``.
        stages: Arguments of pytest by the name of a stage of tests, in order.
        netlists: The units whose netlists of a mutant are compared with the original: they contain
            all its files.
        theorems: Files by name of the theorems that have a fault in one of its modules.
        sources: For host code, patterns of its files; it has no netlists and no theorems.
        keeps_models: Whether mutants use the existing compiled models of the hardware.
        without: Arguments of pytest for tests that are not run.
    """

    name: str
    stages: dict[str, tuple[str, ...]]
    netlists: tuple[str, ...]
    theorems: dict[str, str]
    sources: tuple[str, ...] = ()
    keeps_models: bool = False
    without: tuple[str, ...] = ()

    @property
    def is_host(self) -> bool:
        """Whether it is host code."""
        return bool(self.sources)

    def files(self, root: Path) -> list[str]:
        """Returns its source files, relative to the project's folder."""
        patterns = self.sources or (f"rtl/{self.name}/*.py",)
        return sorted(
            {str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern)}
        )

    def project_files(self, root: Path) -> list[Path]:
        """Returns all files on which its tests depend."""
        folders = ("rtl", "sim") if self.is_host else ("rtl",)
        return [
            *(path for folder in folders for path in (root / folder).rglob("*.py")),
            *self.test_files(root),
        ]

    def test_files(self, root: Path) -> list[Path]:
        """Returns the files of its tests, and all files beside them."""
        paths = {root / test.partition("::")[0] for tests in self.stages.values() for test in tests}
        folders = {path if path.is_dir() else path.parent for path in paths}
        return sorted(path for folder in folders for path in folder.glob("*.py"))

    def mutants(self, root: Path) -> list[Mutant]:
        """Returns all its mutants, file by file."""
        return [
            mutant
            for file in self.files(root)
            for mutant in mutants_of(file, (root / file).read_text(encoding="utf-8"))
        ]


def units_of(
    root: Path, folder: Path, *, own: bool = False, theorems: str = "none"
) -> dict[str, Unit]:
    """Returns the units by name, from the file ``units.toml`` in a folder.

    Parameters:
        own: Whether only the units' own tests are run.
        theorems: Which theorems are proved: "none", "short" (those of at most a minute), or "all".
    """
    known = tomllib.loads((folder / "units.toml").read_text(encoding="utf-8"))
    files = (
        () if theorems == "none" else sorted((root / "testbench" / "formal").glob(f"{_PREFIX}*.py"))
    )
    proofs = {path: load(path) for path in files}
    found = {}
    for name, facts in known.items():
        of_unit = {
            path.stem.removeprefix(_PREFIX): str(path.relative_to(root))
            for path, theorem in proofs.items()
            if (theorems == "all" or not theorem.long)
            and any(fault.module.startswith(f"rtl.{name}.") for fault in theorem.faults)
        }
        stages = {
            stage: tuple(facts[stage])
            for stage in ((_OWN,) if own else (_OWN, _BROADER))
            if stage in facts
        }
        found[name] = Unit(
            name,
            stages,
            tuple(facts.get("netlists", ())),
            of_unit,
            tuple(facts.get("sources", ())),
            facts.get("keeps_models", False),
            tuple(facts.get("without", ())),
        )
    return found


def reasons_of(folder: Path) -> dict[tuple[str, str, str], str]:
    """Returns the reasons why mutants are equivalent, by key, from the file ``equivalents.toml`` in
    a folder.
    """
    known = tomllib.loads((folder / "equivalents.toml").read_text(encoding="utf-8"))
    entries: Sequence[dict[str, str]] = known.get("equivalent", [])
    return {(entry["file"], entry["scope"], entry["change"]): entry["reason"] for entry in entries}
