"""What a theorem is: the content of a file of ``testbench/formal``."""

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

    Parameters
    ----------
    make : callable
        Makes the hardware with its surroundings: assertions, with the hardware's own, are proved;
        assumptions restrict the inputs; covers must be reachable.
    depth : int
        Cycles of the induction: nothing is wrong in as many cycles from reset on, and, after as many cycles without
        anything wrong, nothing is wrong in the next one. If ``bounded``, only the first half of that.
    cover_depth : int
        Cycles from reset on in which every cover happens, and every fault is found.
    faults : tuple of Fault
        Each makes the theorem false.
    bounded : bool
        Proved for ``depth`` cycles from reset on only.
    long : bool
        It takes more than a minute: ``--short`` leaves it out.
    examples : callable, optional
        As ``make``, with less choice for what is around: covers and faults are searched there, if
        it is given. A fault that is found there would also be found in general, but later.
    split : bool
        The step of the induction checks one assertion at a time, and each cover is a separate
        query: quicker if there are very many assertions. For each fault it is checked that the
        induction fails: that a state which the theorem allows, reachable from reset or not, leads
        to one that it rules out.
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
    """The ``THEOREM`` of a file."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.THEOREM
