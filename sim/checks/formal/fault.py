"""Deliberate faults of the hardware, that theorems must detect."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

__all__ = ["Fault", "InjectionError", "insert"]


class InjectionError(Exception):
    """A fault that cannot be made: its text is not in the source, or occurs more than once."""


@dataclass(frozen=True)
class Fault:
    """A text replacement in the source of ``module``: ``old``, which must occur there once, becomes
    ``new``.
    """

    module: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.module}: {' '.join(self.new.split()) or 'nothing'} in place of {' '.join(self.old.split())}"

    def applied(self, source: str) -> str:
        """Returns the source with the fault; InjectionError if the text does not occur exactly
        once.
        """
        if (times := source.count(self.old)) != 1:
            raise InjectionError(
                f"{self.module}: {self.old!r} is in its source {times} times, not once"
            )
        return source.replace(self.old, self.new)


class _FaultLoader(SourceFileLoader):
    """Compiles a module's source with the fault; the result is not cached for later imports."""

    def __init__(self, fault: Fault, path: str) -> None:
        super().__init__(fault.module, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self._fault.applied(self.get_data(path).decode("utf-8"))
        return compile(source, path, "exec")


class _Finder(MetaPathFinder):
    """Finds the module of a fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            assert spec.origin is not None
            spec.loader = _FaultLoader(self._fault, spec.origin)
        return spec


def insert(fault: Fault) -> None:
    """Makes this process import the module with its fault; it must not have been imported before."""
    assert fault.module not in sys.modules, fault.module
    sys.meta_path.insert(0, _Finder(fault))
