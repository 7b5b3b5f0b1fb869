"""Translates the functions of a PTX program to lists of operations."""

from sim.support.alignment import round_up
from sim.toolchain.ptx.module import PtxFunction, PtxLabel, PtxRegister, PtxSpace, PtxVariable

from .access import ACCESS
from .bits import BITS
from .floats import REALS
from .flow import FLOW, giver, taker
from .launch import PtxLaunch
from .numbers import ARITHMETIC, CARRYING, Compute
from .select import SELECT
from .site import Site
from .slots import Slots
from .state import ExecutableFunction, Operation, PtxThread
from .together import TOGETHER
from .video import VIDEO

__all__ = ["PtxFunctions"]

_MAKERS = {**SELECT, **ACCESS, **FLOW, **TOGETHER}
_COMPUTE = {**ARITHMETIC, **BITS, **VIDEO}
KNOWN = frozenset({*_MAKERS, *_COMPUTE, *CARRYING, *REALS})
"""The opcodes that the interpreter implements."""


class PtxFunctions:
    """The functions of a launch's module. Each is translated when it is first called."""

    def __init__(self, launch: PtxLaunch) -> None:
        self.launch = launch
        self._functions = list(launch.module.functions.values())
        self._codes: dict[str, ExecutableFunction] = {}
        self._by_address = {
            launch.addresses[function.name]: function.name
            for function in self._functions
            if not function.entry
        }

    def at_address(self, address: int) -> ExecutableFunction | None:
        """Returns the function at an address, None if there is none."""
        name = self._by_address.get(address)
        return self.code(name) if name is not None else None

    def code(self, name: str) -> ExecutableFunction:
        """Returns the function of a name."""
        if name not in self._codes:
            self._codes[name] = self._translated(self.launch.module.functions[name])
        return self._codes[name]

    def _translated(self, function: PtxFunction) -> ExecutableFunction:
        body = function.body
        assert body is not None
        slots = Slots.of(function, self.launch.undefined)
        locals_, size = _local_offsets(function)
        code = ExecutableFunction(
            function,
            self._functions.index(function),
            slots,
            size,
            [taker(slots, item) for item in function.parameters],
            [giver(slots, item) for item in function.results],
        )
        labels: dict[PtxLabel, int] = {}
        for item in body:
            if isinstance(item, PtxLabel):
                labels[item] = len(code.instructions)
            else:
                code.instructions.append(item)
        for number, instruction in enumerate(code.instructions):
            code.operations.append(
                _operation(Site(instruction, slots, self, number + 1, labels, locals_))
            )
        return code


def _local_offsets(function: PtxFunction) -> tuple[dict[PtxVariable, int], int]:
    offsets: dict[PtxVariable, int] = {}
    end = 0
    for variable in function.variables:
        if variable.space is PtxSpace.LOCAL:
            end = round_up(end, variable.alignment)
            offsets[variable] = end
            end += variable.size
    return offsets, end


def _operation(site: Site) -> Operation:
    """Returns an instruction's operation, executed only where its guard holds."""
    run, guard = _unguarded(site), site.instruction.guard
    if guard is None:
        return run
    place, needed = site.slots.register(guard.register), int(not guard.negated)

    def guarded(thread: PtxThread, values: list[int]) -> int | None:
        return run(thread, values) if values[place] == needed else None

    return guarded


def _unguarded(site: Site) -> Operation:
    instruction = site.instruction
    opcode = instruction.opcode
    if opcode in CARRYING and (instruction.carry_out or opcode not in ARITHMETIC):
        return CARRYING[opcode](site)
    if opcode in REALS and instruction.type.floating:
        return _computation(site, REALS[opcode](instruction))
    if opcode in _COMPUTE:
        return _computation(site, _COMPUTE[opcode](instruction))
    return _MAKERS[opcode](site)


def _computation(site: Site, compute: Compute) -> Operation:
    """Returns an operation that stores a value computed from the operands."""
    (d, _), *sources = (site.slots.predicate(operand) for operand in site.instruction.operands)
    target = site.instruction.operands[0]
    assert isinstance(target, PtxRegister)
    mask = (1 << target.type.bits) - 1
    if any(negated for _, negated in sources):

        def with_negated(thread: PtxThread, values: list[int]) -> None:
            values[d] = compute(*(values[place] ^ negated for place, negated in sources)) & mask

        return with_negated
    places = [place for place, _ in sources]
    if len(places) == 2:
        a, b = places

        def binary(thread: PtxThread, values: list[int]) -> None:
            values[d] = compute(values[a], values[b]) & mask

        return binary

    def run(thread: PtxThread, values: list[int]) -> None:
        values[d] = compute(*(values[place] for place in places)) & mask

    return run
