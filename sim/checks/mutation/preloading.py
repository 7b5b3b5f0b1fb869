"""Imports modules once before a process forks for each mutant; the fork imports again what the
mutant changes.
"""

import builtins
import gc
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

__all__ = ["Preloaded"]

_NOT_REWRITTEN = "PYTEST_DONT_REWRITE"
"""In the docstring of a module, this makes pytest not rewrite its assertions: it would warn of
plugins that were imported before it.
"""


class Preloaded:
    """Imports libraries, and all modules of packages, except those that cannot be imported."""

    def __init__(self, libraries: Iterable[str], packages: Iterable[str]) -> None:
        self._importers: dict[str, set[str]] = {}
        for name in libraries:
            with suppress(ImportError):
                import_module(name)
        for name in [name for name in sys.modules if "." not in name]:
            sys.modules[name].__doc__ = f"{sys.modules[name].__doc__ or ''}\n{_NOT_REWRITTEN}"
        with self._recording():
            for package in packages:
                with suppress(ImportError):
                    self._load(package)
        self._times = {
            name: (path, path.stat().st_mtime_ns)
            for name, path in self._files(tuple(packages))
            if path.exists()
        }
        gc.freeze()  # Loaded objects stay in memory that the forks share

    @staticmethod
    def _load(package: str) -> None:
        """Imports a package and all modules in it, except commands."""
        path = import_module(package).__path__
        for found in pkgutil.walk_packages(path, f"{package}.", onerror=lambda name: None):
            if not found.name.endswith(".__main__"):
                with suppress(Exception):
                    import_module(found.name)

    @staticmethod
    def _files(packages: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in packages and (file := getattr(module, "__file__", None)):
                yield name, Path(file)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """A context in which it is recorded which module imports which."""
        original: Any = builtins.__import__

        def noting(
            name: str,
            globals: Any = None,
            locals: Any = None,
            fromlist: Any = (),
            level: int = 0,
        ) -> Any:
            found = original(name, globals, locals, fromlist, level)
            importer = (globals or {}).get("__name__", "")
            imported = name
            if level:
                imported = resolve_name("." * level + name, globals["__package__"])
            for part in ("", *(f".{part}" for part in fromlist or ())):
                self._importers.setdefault(f"{imported}{part}", set()).add(importer)
            return found

        builtins.__import__ = noting
        try:
            yield
        finally:
            builtins.__import__ = original

    def _depending(self, changed: Iterable[str]) -> set[str]:
        """Returns the loaded modules that import changed ones, or modules in changed packages,
        directly or indirectly.
        """
        found, new = set(), list(changed)
        while new:
            module = new.pop()
            if module not in found:
                found.add(module)
                new += self._importers.get(module, ())
                inside = f"{module}."
                new += [name for name in sys.modules if name.startswith(inside)]
        return found & sys.modules.keys()

    def forget_changed(self) -> None:
        """Removes the modules whose files have changed, and those that depend on them."""
        changed = [
            name
            for name, (path, time) in self._times.items()
            if not path.exists() or path.stat().st_mtime_ns != time
        ]
        for name in self._depending(changed):
            del sys.modules[name]
            package, _, attribute = name.rpartition(".")
            if package in sys.modules:
                vars(sys.modules[package]).pop(attribute, None)
