"""The runs of the kernels: reads ``manifest.toml`` and makes launches.

An entry ``[[run]]`` of the manifest has these keys:

==================  ========================================================================================
key                 meaning
==================  ========================================================================================
``kernel``          name of the files; the first run of a kernel needs no ``label``
``entry``           name of the kernel in the file, ``k`` if absent
``label``           distinguishes further runs of the same kernel
``exercises``       what the run tests
``grid`` ``block``  one to three dimensions
``dynamic_shared``  bytes of dynamic shared memory, 0 if absent
``arguments``       in the order of the kernel's parameters, see below
``compared``        if some bytes of global memory are undefined: which are compared, and why not all
``traps``           the run ends at a BPT.TRAP
==================  ========================================================================================

An argument has a ``name`` (the parameter's name in the PTX) and a ``type`` (u8 to u64, s8 to s64).
With ``value`` it is a scalar; the value may be a table with one value for each optimisation level.
With ``values`` it is a structure that is passed by value and consists of these elements. Otherwise
it is a buffer: ``words`` are its first elements, ``text`` its first bytes, ``iota`` makes its
elements consecutive numbers from that one on, ``random`` is the seed of elements from ``low`` to
``high`` (all values of the type if absent). ``count`` is its number of elements, by default those
given; the rest is zero.
"""

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.launch import Argument, Buffer, Launch, Scalar, prepare
from sim.toolchain.cubin.loader import read_cubin

__all__ = [
    "DEBUG",
    "LEVELS",
    "RUNS",
    "BufferSpec",
    "ManifestError",
    "Run",
    "ScalarSpec",
    "build",
    "cubin",
    "read",
]

LEVELS = ("O0", "O3")
"""Optimisation levels of ptxas with which each kernel was compiled."""
DEBUG = "G"
"""Level of files that were compiled for a debugger, without any optimisation."""
_HERE = Path(__file__).parents[1] / "programs"
_TYPES = {
    f"{sign}{bits}": np.dtype(f"{kind}{bits // 8}")
    for sign, kind in (("u", "<u"), ("s", "<i"))
    for bits in (8, 16, 32, 64)
}
_RUN_KEYS = {
    "kernel",
    "entry",
    "label",
    "exercises",
    "grid",
    "block",
    "dynamic_shared",
    "arguments",
    "compared",
    "traps",
}
_BUFFER_KEYS = {"name", "type", "count", "words", "text", "iota", "random", "low", "high"}


class ManifestError(ValueError):
    """An invalid entry of the manifest."""


@dataclass(frozen=True)
class ScalarSpec:
    """A parameter passed by value; ``values`` is indexed by optimisation level.

    A structure is one long number with its first byte in the lowest bits.
    """

    name: str
    dtype: np.dtype
    values: Mapping[str, int]


@dataclass(frozen=True)
class BufferSpec:
    """A global buffer and its initial content."""

    name: str
    content: np.ndarray


@dataclass(frozen=True)
class Run:
    """One launch of one kernel, whose files are in ``folder``.

    ``grid`` and ``block`` have three dimensions; ``compared`` is empty if all of global memory is
    defined.
    """

    folder: Path
    kernel: str
    entry: str
    label: str
    exercises: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int
    arguments: tuple[ScalarSpec | BufferSpec, ...]
    compared: str
    traps: bool

    @property
    def name(self) -> str:
        """Name of the kernel, with the label if there is one."""
        return f"{self.kernel}:{self.label}" if self.label else self.kernel

    @property
    def threads(self) -> int:
        """Number of threads of a CTA."""
        x, y, z = self.block
        return x * y * z

    def cubin(self, level: str) -> Path:
        """Returns the file that NVIDIA's assembler made of the kernel at an optimisation level."""
        return self.folder / f"{self.kernel}.{level}.cubin"

    @property
    def ptx(self) -> Path:
        """File of the kernel's PTX."""
        return self.folder / f"{self.kernel}.ptx"

    def launch_arguments(self, level: str) -> list[Argument]:
        """Returns the arguments of the launch, in the order of the kernel's parameters."""
        return [
            Buffer(spec.name, spec.content.tobytes())
            if isinstance(spec, BufferSpec)
            else Scalar(spec.values[level], spec.dtype.itemsize)
            for spec in self.arguments
        ]


def _dimensions(entry: Mapping[str, Any], key: str) -> tuple[int, int, int]:
    x, y, z = (*entry[key], 1, 1)[:3]
    return x, y, z


def _random_elements(dtype: np.dtype, entry: Mapping[str, Any]) -> list[int]:
    """Returns random numbers that depend on the seed alone, not on the version of a library."""
    bounds = np.iinfo(dtype)
    low, high = entry.get("low", int(bounds.min)), entry.get("high", int(bounds.max))
    source = random.Random(entry["random"])
    return [low + source.getrandbits(96) % (high - low + 1) for _ in range(entry["count"])]


def _buffer(where: str, entry: Mapping[str, Any]) -> BufferSpec:
    if unknown := set(entry) - _BUFFER_KEYS:
        raise ManifestError(
            f"{where}: argument {entry['name']} has unknown keys: {', '.join(sorted(unknown))}"
        )
    dtype = _TYPES[entry["type"]]
    if "random" in entry:
        given = _random_elements(dtype, entry)
    elif "iota" in entry:
        given = list(range(entry["iota"], entry["iota"] + entry["count"]))
    elif "text" in entry:
        given = list(entry["text"].encode())
    else:
        given = entry.get("words", [])
    content = np.zeros(entry.get("count", len(given)), dtype)
    if len(given) > len(content):
        raise ManifestError(
            f"{where}: argument {entry['name']} has {len(given)} elements and count {len(content)}"
        )
    content[: len(given)] = np.array(given, dtype)
    return BufferSpec(entry["name"], content)


def _argument(where: str, entry: Mapping[str, Any]) -> ScalarSpec | BufferSpec:
    if entry["type"] not in _TYPES:
        raise ManifestError(
            f"{where}: argument {entry['name']} has type {entry['type']!r}, not one of "
            f"{', '.join(_TYPES)}"
        )
    dtype = _TYPES[entry["type"]]
    if "values" in entry:
        content = np.array(entry["values"], dtype).tobytes()
        return ScalarSpec(
            entry["name"],
            np.dtype(f"V{len(content)}"),
            dict.fromkeys((*LEVELS, DEBUG), int.from_bytes(content, "little")),
        )
    if "value" not in entry:
        return _buffer(where, entry)
    value = entry["value"]
    values: dict[str, int] = (
        value if isinstance(value, dict) else dict.fromkeys((*LEVELS, DEBUG), value)
    )
    return ScalarSpec(entry["name"], dtype, values)


def _run(entry: Mapping[str, Any], folder: Path) -> Run:
    where = f"{entry['kernel']} {entry.get('label', '')}".rstrip()
    if unknown := set(entry) - _RUN_KEYS:
        raise ManifestError(f"{where}: unknown keys: {', '.join(sorted(unknown))}")
    return Run(
        folder,
        entry["kernel"],
        entry.get("entry", "k"),
        entry.get("label", ""),
        entry["exercises"],
        _dimensions(entry, "grid"),
        _dimensions(entry, "block"),
        entry.get("dynamic_shared", 0),
        tuple(_argument(where, argument) for argument in entry["arguments"]),
        entry.get("compared", ""),
        entry.get("traps", False),
    )


def read(text: str, folder: Path = _HERE) -> dict[str, Run]:
    """Reads the runs of a manifest's text, by name; ``folder`` has the kernels' files.

    Raises ManifestError if an entry is invalid.
    """
    runs: dict[str, Run] = {}
    for entry in tomllib.loads(text)["run"]:
        run = _run(entry, folder)
        if run.name in runs:
            raise ManifestError(f"{run.name} is there twice")
        runs[run.name] = run
    return runs


RUNS: dict[str, Run] = read((_HERE / "manifest.toml").read_text())
"""All runs by name. A kernel's name without a label is its first run."""


def cubin(kernel: str, level: str) -> Path:
    """Returns the file that NVIDIA's assembler made of a kernel of this folder at an optimisation
    level.
    """
    return RUNS[kernel].cubin(level)


def build(run: Run, level: str) -> Launch:
    """Returns a launch of the run's kernel at an optimisation level, in a memory of its own."""
    return prepare(
        read_cubin(run.cubin(level)),
        run.launch_arguments(level),
        entry=run.entry,
        grid=run.grid,
        block=run.block,
        dynamic_shared=run.dynamic_shared,
    )
