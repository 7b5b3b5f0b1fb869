"""The identity of a design, derived from its object before elaboration, to find its compiled model.

Elaboration is a function of the object (its class, its attributes, theirs, and so on) and of the
source code. Both are hashed to a digest, with everything else that a compiled model depends on. An
object that cannot be identified for certain (a closure, an object without a source file) has no
identity, and such a design is elaborated each time.
"""

import ast
import enum
import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from amaranth.hdl import Elaboratable, MemoryData, Shape, Signal

__all__ = ["Identity", "identify"]

ROOT = Path(__file__).resolve().parents[2]
"""The folder that contains the packages."""
ALWAYS = ("rtl", "sim/engine")
"""Folders whose source files every design depends on."""
_PLAIN = (int, float, str, bytes, bool, type(None), range, type(...))
_SKIPPED = {"src_loc", "_src_loc", "__weakref__", "__dict__"}
_STARTED = time.time()


class _UncertainError(Exception):
    """An object whose behaviour is not determined by its attributes and source files."""


@dataclass(frozen=True)
class Identity:
    """The identity of a design that has not been elaborated.

    Attributes:
        digest: Equal for designs that elaborate to the same netlist and compile to the same model.
        signals: The signals that can be reached from the design's object, in an order that designs
            with equal digests share.
        memories: Its memories, likewise.
        elaboratables: Its elaboratables, likewise.
    """

    digest: str
    signals: list[Signal]
    memories: list[MemoryData]
    elaboratables: list[Any]


def identify(design: Any, *depends: str) -> Identity | None:
    """Returns the identity of a design, None if it has none; ``depends`` is hashed, too."""
    walk = _ObjectWalk()
    try:
        walk.visit(design)
        sources = _sources(walk.modules)
    except (_UncertainError, RecursionError):
        return None
    if any(changed >= _process_start() for _, _, changed in sources):
        return None  # The imported code may be older than the change.
    parts = [*walk.parts, *depends, platform.python_version(), version("amaranth"), str(ROOT)]
    parts += [f"{name} {digest}" for name, digest, _ in sources]
    return Identity(
        hashlib.sha256("\0".join(parts).encode()).hexdigest(),
        walk.signals,
        walk.memories,
        walk.elaboratables,
    )


class _ObjectWalk:
    """Visits an object and all objects that it refers to, each once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.signals: list[Signal] = []
        self.memories: list[MemoryData] = []
        self.elaboratables: list[Any] = []
        self.modules: set[str] = set()
        self._seen: dict[int, int] = {}
        # Keeps visited objects alive, so that no other object gets the id of one.
        self._kept: list[Any] = []

    def visit(self, thing: Any) -> None:
        """Hashes an object, and what it refers to."""
        kind = type(thing)
        if kind in _PLAIN:
            self.parts.append(repr(thing))
            return
        if isinstance(thing, enum.Enum):
            self.parts.append(f"{self._named(kind)}.{thing.name}")
            return
        if id(thing) in self._seen:
            self.parts.append(f"#{self._seen[id(thing)]}")
            return
        self._seen[id(thing)] = len(self._seen)
        self._kept.append(thing)
        if isinstance(thing, type):
            self.parts.append(f"class {self._named(thing)}")
        elif kind is Shape:
            self.parts.append(repr(thing))
        elif kind is Signal:
            self.signals.append(thing)
            self.parts.append(
                f"signal {thing.name} {thing.shape()!r} {thing.init} {thing.reset_less}"
            )
            self.visit(thing.attrs)
        elif isinstance(thing, (list, tuple)):
            self._all(f"{self._named(kind)} {len(thing)}", thing)
        elif isinstance(thing, Mapping):
            self._all(
                f"{self._named(kind)} {len(thing)}",
                (each for item in thing.items() for each in item),
            )
        elif isinstance(thing, (set, frozenset)):
            if not all(type(each) in _PLAIN for each in thing):
                raise _UncertainError
            self._all(f"{self._named(kind)} {len(thing)}", sorted(thing, key=repr))
        elif isinstance(thing, partial):
            self._all("partial", (thing.func, thing.args, thing.keywords))
        elif isinstance(thing, MethodType):
            self._all("method", (thing.__func__, thing.__self__))
        elif isinstance(thing, (FunctionType, BuiltinFunctionType)):
            self.parts.append(f"function {self._named(thing)}")
        elif isinstance(thing, ModuleType):
            self.parts.append(f"module {thing.__name__}")
            self.modules.add(thing.__name__)
        else:
            if isinstance(thing, MemoryData):
                self.memories.append(thing)
            if isinstance(thing, Elaboratable):
                self.elaboratables.append(thing)
            self._all(f"object {self._named(kind)}", _attributes(thing))

    def _all(self, title: str, things: Iterable[Any]) -> None:
        self.parts.append(title)
        for thing in things:
            self.visit(thing)

    def _named(self, thing: Any) -> str:
        """Returns the name of a class or function, which must be found under that name in its
        module.
        """
        module, name = getattr(thing, "__module__", None), thing.__qualname__
        if module is None or "<" in name or module == "__main__":
            raise _UncertainError
        self.modules.add(module)
        return f"{module}.{name}"


def _attributes(thing: Any) -> Iterator[Any]:
    """Yields names and values of an object's attributes, in any kind of storage."""
    try:
        for name, value in object.__getattribute__(thing, "__dict__").items():
            if name not in _SKIPPED and not name.startswith("_MustUse__"):
                yield name
                yield value
    except AttributeError:
        pass
    for base in type(thing).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in _SKIPPED:
                name = f"_{base.__name__.lstrip('_')}{slot}" if slot.startswith("__") else slot
                try:
                    yield object.__getattribute__(thing, name)
                except AttributeError:
                    yield f"no {slot}"


# Source files.


def _sources(modules: set[str]) -> list[tuple[str, str, float]]:
    """Returns the files on which these modules and all designs depend: name, digest, time of
    modification.

    A module depends on its imports, recursively. Importing it also executes the packages around it,
    so their files are included, but not their imports, unless a name is imported from the package
    itself.
    """
    files = {
        path
        for folder in ALWAYS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".cc", ".h")
    }
    followed = set(files)
    waiting = list(modules)
    while waiting:
        own, packages = _files_of(waiting.pop())
        files.update(packages)
        if own is not None and own not in followed:
            files.add(own)
            followed.add(own)
            waiting += _imports(own, own.stat().st_mtime_ns)
    return [_digest(path, path.stat().st_mtime_ns) for path in sorted(files)]


@cache
def _digest(path: Path, _changed: int) -> tuple[str, str, float]:
    return (
        str(path.relative_to(ROOT)),
        hashlib.sha256(path.read_bytes()).hexdigest(),
        _changed / 1e9,
    )


@cache
def _files_of(module: str) -> tuple[Path | None, tuple[Path, ...]]:
    """Returns the file of a module, and the files of its enclosing packages.

    For a library, and for a name that is no module, it returns None and no files.
    """
    parts = module.split(".")
    if not (ROOT / parts[0]).is_dir():
        loaded = sys.modules.get(module)
        file = getattr(loaded, "__file__", None)
        if file and parts[0] != "amaranth" and parts[0] not in sys.stdlib_module_names:
            raise _UncertainError
        return None, ()
    folder = ROOT.joinpath(*parts)
    own = next(filter(Path.is_file, (folder / "__init__.py", folder.with_suffix(".py"))), None)
    if own is None:
        return None, ()
    around = (ROOT.joinpath(*parts[:end], "__init__.py") for end in range(1, len(parts)))
    return own, tuple(filter(Path.is_file, around))


@cache
def _imports(path: Path, _changed: int) -> tuple[str, ...]:
    """Returns the modules of this project that a file imports, anywhere in it."""
    names = []
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(
                [*package[: len(package) - node.level + 1], *([node.module] if node.module else [])]
                if node.level
                else [node.module or ""]
            )
            names += [base, *(f"{base}.{name.name}" for name in node.names)]
    return tuple(name for name in names if (ROOT / name.split(".")[0]).is_dir())


@cache
def _process_start() -> float:
    """Returns the start time of this process, before it imported anything, in seconds since 1970;
    not too early.
    """
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return (
            time.time()
            - time.clock_gettime(time.CLOCK_BOOTTIME)
            + (ticks + 1) / os.sysconf("SC_CLK_TCK")
        )
    except (AttributeError, OSError, ValueError):
        # The time of this file's import, on systems that do not report the start time.
        return _STARTED
