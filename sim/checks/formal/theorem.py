"""The theorem of a file of ``testbench/formal``."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from amaranth.hdl import Elaboratable

from sim.checks.formal.fault import Fault

__all__ = ["Theorem", "load"]


@dataclass(frozen=True)
class Theorem:
    """A theorem.

    Parameters:
        make (callable): Makes the hardware with its surroundings: all assertions, including the
            hardware's own, are proved; assumptions restrict the inputs; covers must be reachable.
        depth (int): Number of cycles of the induction: no assertion fails within this many cycles
            from reset, and after this many cycles without a failure none fails in the next one. If
            ``bounded``, only the first part.
        cover_depth (int): Cycles from reset within which every cover is reached, and every fault
            detected.
        faults (tuple of Fault): Faults, each of which makes the theorem false.
        bounded (bool): Whether it is proved only for ``depth`` cycles from reset.
        long (bool): Whether it takes more than a minute: ``--short`` leaves it out.
        examples (callable, optional): Like ``make``, with less freedom of the surroundings: if
            given, covers and faults are searched there. A fault that is found there would also be
            found in general, but later.
        split (bool): Whether the step of the induction checks one assertion at a time, and each
            cover is a separate query: faster with very many assertions. For each fault it is
            checked that the induction fails: that a state which the theorem allows, reachable from
            reset or not, leads to one that it rules out.
    """

    make: Callable[[], Elaboratable]
    depth: int
    cover_depth: int
    faults: tuple[Fault, ...]
    bounded: bool = False
    long: bool = False
    examples: Callable[[], Elaboratable] | None = None
    split: bool = False


def load(path: Path) -> Theorem:
    """Returns the ``THEOREM`` of a file."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.THEOREM
