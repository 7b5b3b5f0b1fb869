"""Beats that the reference machine executes: every form, random fields, operands at the edges."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from rtl.execute.decode import LANE_FORMS
from rtl.isa.errors import WarpError
from rtl.isa.floating import FLOATING
from rtl.isa.kinds import VoteMode
from rtl.isa.syntax import PT, RZ, Form, Register
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS
from sim.model.decode import decode
from sim.model.retirement import Retirement, WarpMasks
from sim.model.state import Warp
from sim.model.vector.lanes import ALL_THREADS, Condition
from testbench.execute.driver import WORD, Beat, Expected, Threads
from testbench.execute.singles import singles
from testbench.handmade import machine, warp_of
from testbench.words import NOP

__all__ = ["EDGES", "model_beats", "number"]

EDGES = (0, 1, 2, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x18000, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0xFFFF_0000,
         0xFFFF_FFFE, WORD)
_COUNTS = (0, 1, 8, 15, 16, 31, 32, 33, 47, 63, 64, 65, 128, 255)
_REGISTERS = (0, 1, 2, 3, 4, 5)
_SPECIAL = ("S2R", "CS2R", "LEPC")


def number(source: Random) -> int:
    """A 32-bit operand: at the edges, a count or a field's place and length, an address near a window, or any."""
    match source.randrange(6):
        case 0 | 1:
            return source.choice(EDGES)
        case 2:
            return source.choice(_COUNTS) | source.choice(_COUNTS) << 8
        case 3:
            window = source.choice((SHARED_WINDOW, LOCAL_WINDOW, SHARED_WINDOW + LOCAL_WINDOW))
            return source.choice((window - 1, window, window + source.getrandbits(24)))
        case 4:
            return 1 << source.randrange(32)
        case _:
            return source.getrandbits(32)


def _numbers(source: Random, count: int) -> list[int]:
    return [number(source) for _ in range(count)]


def _legal_word(source: Random, form: Form) -> int:
    """A word of the form that the machine does not refuse. Registers are those that hold something."""
    registers = {operand.field for operand in form.operands.values() if isinstance(operand, Register)}
    while True:
        word = form.match
        for name, field in form.fields.items():
            if name in registers or name in ("Ra", "Rb", "Rc", "Rd"):
                value = source.choice((*_REGISTERS, *_REGISTERS, RZ))
            else:
                value = source.choice((field.bounds[0], field.bounds[-1], *source.choices(field.bounds, k=4)))
            if not field.mask & form.mask:
                word = field.put(word, value)
        if decode(word, RZ + 1).error is WarpError.NONE:
            return word


class _Constants:
    """What an action needs of a machine: constants, all the same."""

    def __init__(self) -> None:
        self.value = 0

    def constant(self, bank: int, address: int, size: int, error: WarpError) -> int:
        return self.value


def model_beats(source: Random, lanes: int, count: int, forms: Sequence[Form] = LANE_FORMS) -> Iterator[Beat]:
    """``count`` beats of each form, in random order."""
    warp, constants = warp_of(machine([NOP])), _Constants()
    order = list(forms) * count
    source.shuffle(order)
    for form in order:
        yield _beat(source, lanes, form, warp, constants)


def _beat(source: Random, lanes: int, form: Form, warp: Warp, constants: Any) -> Beat:
    word = _legal_word(source, form)
    for register in _REGISTERS:
        warp.registers[register] = np.array(_numbers(source, WARP_THREADS), np.uint32)
    if form in FLOATING:
        for field, numbers in zip(("Ra", "Rb", "Rc"), singles(source, WARP_THREADS), strict=True):
            if (register := form.values(word).get(field, RZ)) != RZ:
                warp.registers[register] = np.array(numbers, np.uint32)
    warp.predicates[:PT] = [source.getrandbits(WARP_THREADS) for _ in range(PT)]
    warp.condition = Condition(*(source.getrandbits(WARP_THREADS) for _ in range(4)))
    constants.value = number(source)
    threads = range(lanes)
    before = Threads(
        {register: warp.registers[register][:lanes].tolist() for register in (*_REGISTERS, RZ)},
        [sum((mask >> thread & 1) << index for index, mask in enumerate(warp.predicates[:PT])) for thread in threads],
        warp.condition.nibbles()[:lanes].tolist(), constants.value)
    values = form.values(word)
    if form.name in _SPECIAL:
        before.special = _numbers(source, lanes)
        return Beat(form.name, word, before, Expected(threads, values["Rd"], before.special))
    if form.name == "VOTE":
        executing = source.choice((ALL_THREADS, source.getrandbits(WARP_THREADS) | 1))
        ballot = _joined(warp, values, executing)
        verdict = {VoteMode.ALL: ballot == executing, VoteMode.ANY: ballot != 0,
                   VoteMode.EQ: ballot in (0, executing)}[VoteMode(values["mode"])]
        before.special, before.vote = [ballot] * lanes, [int(verdict)] * lanes
        predicates = {values["Pd"]: before.vote} if values["Pd"] != PT else {}
        return Beat(form.name, word, before, Expected(threads, values["Rd"], before.special, predicates))
    masks = WarpMasks(ALL_THREADS)
    record = Retirement(0, 0, word, masks, masks, 0, 0, 0)
    decode(word, RZ + 1).action(constants, warp, ALL_THREADS, record)
    return Beat(form.name, word, before, _expected(lanes, values, record))


def _joined(warp: Warp, values: dict[str, int], executing: int) -> int:
    """The executing threads whose vote is yes."""
    return (warp.predicates[values["Pc"]] ^ (ALL_THREADS if values["Pc_not"] else 0)) & executing


def _expected(lanes: int, values: dict[str, int], record: Retirement) -> Expected:
    """What the record says that was written."""
    threads = [thread for thread in range(lanes) if values.get("lanes", 15) >> thread % 4 & 1]
    expected = Expected(threads, values.get("Rd", RZ))
    if record.registers:
        (expected.destination, (_, row)), = record.registers.items()
        expected.values = row[:lanes]
    expected.predicates = {number: [mask >> thread & 1 for thread in range(lanes)]
                           for number, (_, mask) in record.predicates.items()}
    if record.condition is not None:
        expected.conditions = record.condition[1][:lanes]
    return expected
