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
        Makes the hardware with what is around it: assertions say what is proved, with those of the hardware itself;
        assumptions say of whom; covers say what must be able to happen.
    depth : int
        Cycles of the induction: nothing is wrong in as many cycles from reset on, and, after as many cycles without
        anything wrong, nothing is wrong in the next one. If ``bounded``, only the first half of that.
    reach : int
        Cycles from reset on in which every cover happens, and every fault is found.
    faults : tuple of Fault
        Each makes the theorem false.
    bounded : bool
        Proved for ``depth`` cycles from reset on only.
    long : bool
        It takes more than a minute: ``--short`` leaves it out.
    examples : callable, optional
        As ``make``, with less choice for what is around: covers and faults are searched there, if it is given. What is
        found there could be found everywhere, but not as soon.
    split : bool
        The step of the induction is asked about one assertion at a time, and each cover is a question of its own:
        quicker if there are very many assertions. Of each fault it is asked whether the induction fails: it leads from
        states that the theorem allows, whether or not they are reached from reset on, to what it rules out.
    """

    make: Callable[[], Elaboratable]
    depth: int
    reach: int
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
