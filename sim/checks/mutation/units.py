"""Units and their mutants, from the testbenches' files ``units.toml`` and ``equivalents.toml``."""

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
        name: The folder of ``rtl``, or of ``sim``.
        stages: Name -> the tests of it, as pytest is given them; in order.
        netlists: The units by whose netlists a mutant is compared with the original: all its files are in them.
        theorems: Name -> the file, of those that have a fault in one of its modules.
        sources: Of host code, its files, as patterns; there are no netlists then, nor theorems.
        keeps_models: Whether mutants use the hardware's compiled models that are there.
        without: Tests that are not run, as pytest is given them.
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
        """Its source files, from the project's folder on."""
        patterns = self.sources or (f"rtl/{self.name}/*.py",)
        return sorted(
            {str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern)}
        )

    def project_files(self, root: Path) -> list[Path]:
        """All files on which its tests depend."""
        folders = ("rtl", "sim") if self.is_host else ("rtl",)
        return [
            *(path for folder in folders for path in (root / folder).rglob("*.py")),
            *self.test_files(root),
        ]

    def test_files(self, root: Path) -> list[Path]:
        """The files of its tests, with all that is beside them."""
        paths = {root / test.partition("::")[0] for tests in self.stages.values() for test in tests}
        folders = {path if path.is_dir() else path.parent for path in paths}
        return sorted(path for folder in folders for path in folder.glob("*.py"))

    def mutants(self, root: Path) -> list[Mutant]:
        """All its mutants, file by file."""
        return [
            mutant
            for file in self.files(root)
            for mutant in mutants_of(file, (root / file).read_text(encoding="utf-8"))
        ]


def units_of(
    root: Path, folder: Path, *, own: bool = False, theorems: str = "none"
) -> dict[str, Unit]:
    """Name -> unit, of the file ``units.toml`` in a folder.

    Parameters:
        own: With the tests of its own alone.
        theorems: With none, with those that take a minute at most ("short"), or with "all".
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
    """Key of a mutant -> why it does what the original does, of the file ``equivalents.toml`` in a folder."""
    known = tomllib.loads((folder / "equivalents.toml").read_text(encoding="utf-8"))
    entries: Sequence[dict[str, str]] = known.get("equivalent", [])
    return {(entry["file"], entry["scope"], entry["change"]): entry["reason"] for entry in entries}
