"""Decodes an instruction word to the core's form: the function, and its operands."""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rtl.isa.barriers import is_packed
from rtl.isa.condition import TRUTH, ConditionCode
from rtl.isa.errors import WarpError
from rtl.isa.kinds import (
    AtomicOperation,
    AtomicType,
    BarrierMode,
    BarrierRead,
    CompareAndSwapType,
    ShuffleMode,
    size_bytes,
)
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ, Address, Constant, Form, Immediate, Literal, Register, Values
from rtl.isa.table import find
from rtl.isa.tokens import TokenKind
from rtl.params import WARP_THREADS

from ..action import Core, constant_address
from ..compute import compute_action, constant_word
from ..decode import WarpInstruction, decode
from ..faults import WarpFaultError
from ..flow import target_of
from ..retirement import Retirement, WarpMasks
from ..state import thread_index
from ..system import SYSTEM, special_register
from ..transfer import TESTING_SWAPS, WIDE_SWAPS, thread_addresses
from ..unwind import DISABLED_BY
from ..vector.operations import OPERATIONS
from ..vector.single import float_sums
from .protocol import ExecutableModel
from .state import DISABLED, ROWS, NativeOp
from .translation import CONSTANT, DecodedSlot, function_of, immediate_fields, shape_of

__all__ = ["CTA_INSTRUCTIONS", "CoreFunctions", "Decoder", "ExecutionPlan"]

CTA_INSTRUCTIONS = ("BAR", "B2R", "R2B")
"""Instructions that access state of the CTA beyond their own warp."""
_DISCARDED_ROW, _DISCARDED_PREDICATE = 256, 8
_SPACES = {"LDG": 0, "STG": 0, "LDL": 1, "STL": 1, "LDS": 2, "STS": 2, "LD": 3, "ST": 3}
_FIXED, _NARROW, _WIDE = range(3)
_MODIFIES, _SWAPS, _TESTS, _ADDS_FLOATS = range(4)
_PUSHES = {
    "SSY": TokenKind.SYNC,
    "PBK": TokenKind.BREAK,
    "PCNT": TokenKind.CONTINUE,
    "PRET": TokenKind.RETURN,
    "PEXIT": TokenKind.EXIT,
    "PLONGJMP": TokenKind.LONGJMP,
}
_LEAVES = {
    "BRK": DISABLED_BY[TokenKind.BREAK],
    "CONT": DISABLED_BY[TokenKind.CONTINUE],
    "RET": DISABLED_BY[TokenKind.RETURN],
    "EXIT": DISABLED_BY[TokenKind.EXIT],
    "LONGJMP": DISABLED_BY[TokenKind.LONGJMP],
    "KIL": "killed",
    "SYNC": None,
}
_AXES = (SpecialRegister.CTAID_X, SpecialRegister.CTAID_Y, SpecialRegister.CTAID_Z)
_LOW_CLOCKS = (SpecialRegister.CLOCK, SpecialRegister.CLOCKLO, SpecialRegister.GLOBALTIMERLO)
_HIGH_CLOCKS = (SpecialRegister.CLOCKHI, SpecialRegister.GLOBALTIMERHI)
_LIVE = (
    SpecialRegister.GLOBALERRORSTATUS,
    SpecialRegister.WARPERRORSTATUS,
    SpecialRegister.WARPERRORSTATUSCLEAR,
)
"""Special registers whose reads only the model executes."""
_OTHERS = (
    "nothing",
    "branch",
    "indexed_branch",
    "call",
    "push_token",
    "leave",
    "barrier",
    "barrier_result",
    "special",
    "cta_index",
    "clock_word",
)


class CoreFunctions:
    """Addresses of the core's functions for instructions."""

    def __init__(self, library: ctypes.CDLL) -> None:
        def table(name: str, *shape: int) -> np.ndarray:
            count = int(np.prod(shape))
            return np.array((ctypes.c_uint64 * count).in_dll(library, name), np.uint64).reshape(
                shape
            )

        self.loads, self.stores = table("loads", 4, 8), table("stores", 4, 8)
        self.constant_loads, self.atomics = table("constant_loads", 8), table("atomics", 2, 2)
        self.others = dict(zip(_OTHERS, table("others", len(_OTHERS)).tolist(), strict=True))


@dataclass
class ExecutionPlan:
    """An instruction as the core executes it.

    Attributes:
        op: The decoded instruction.
        functions: Texts of the compiled functions that it needs, by name.
        function: Name of the function that executes it; empty for one of the core's own.
        helper: Name of a function that this one calls; empty without one.
        uniform: Keeps alive the rows that ``op`` points to.
    """

    op: NativeOp
    functions: Mapping[str, str]
    function: str = ""
    helper: str = ""
    uniform: np.ndarray | None = None


class _UnsupportedError(Exception):
    """The core cannot execute the instruction; the model has to."""


@dataclass
class _WarpPosition:
    """The properties of a warp that special registers depend on."""

    slot: int
    thread_index: np.ndarray


class _RowNumbers:
    """The rows of operands of an instruction, including rows of one word for all threads that it
    brings along.
    """

    def __init__(self, op: NativeOp) -> None:
        self._op = op
        self._count = 0
        self.uniform: list[int] = []

    def add(self, row: int) -> None:
        """Adds a row of registers as the next operand."""
        self._op.rows[self._count] = row
        self._count += 1

    def add_read(self, number: int, word: int = 0) -> None:
        """Adds a register that is read as the next operand: register ``number`` + ``word``."""
        self.add(number if number == RZ else number + word)

    def add_written(self, number: int, word: int = 0) -> None:
        """Adds a register that is written as the next operand: register ``number`` + ``word``."""
        self.add(_DISCARDED_ROW if number == RZ else number + word)

    def add_word(self, word: int) -> None:
        """Adds a word, the same for all threads, as the next operand."""
        self.add(ROWS + len(self.uniform))
        self.uniform.append(word & 0xFFFF_FFFF)

    def content(self) -> np.ndarray | None:
        """Returns the rows of uniform words; None without any."""
        if not self.uniform:
            return None
        return np.repeat(np.array(self.uniform, np.uint32), WARP_THREADS)


@lru_cache(1 << 14)
def _decoded(
    word: int, registers: int, floats: bool, doubles: bool
) -> tuple[WarpInstruction, Form | None]:
    return decode(word, registers, floats, doubles), find(word)


class Decoder:
    """Makes plans for the instructions of a machine."""

    def __init__(self, machine: ExecutableModel, core: CoreFunctions) -> None:
        self._machine = machine
        self._core = core
        self._special: dict[int, np.ndarray] = {}

    def plan(self, word: int, address: int) -> ExecutionPlan | None:
        """Returns the plan of a word at an address; None if the core does not execute it."""
        launch = self._machine.launch
        instruction, form = _decoded(word, launch.registers, launch.floats, launch.doubles)
        if instruction.error is not WarpError.NONE or form is None:
            return None
        op = NativeOp(
            guard=instruction.guard,
            guard_flip=instruction.guard_flip,
            has_test=instruction.test != ConditionCode.T.value,
            truth=TRUTH[instruction.test],
        )
        try:
            return self._made(form, form.values(word), op, address)
        except (_UnsupportedError, WarpFaultError):
            return None

    def _made(self, form: Form, values: Values, op: NativeOp, address: int) -> ExecutionPlan:
        name = form.name
        if name in OPERATIONS or name == "SHFL":
            return self._computed(form, values, op)
        rows, helper = _RowNumbers(op), ("", "")
        if name in ("S2R", "CS2R"):
            uniform = self._special_register(values, op, rows)
            return ExecutionPlan(op, {}, uniform=uniform)
        if name in _SPACES:
            self._transfer(form, values, op, rows)
        elif name == "LDC":
            self._constant_load(form, values, op, rows)
        elif name in ("ATOM", "ATOMS", "RED"):
            helper = self._atomic(form, values, op, rows)
        elif name in ("NOP", "DEPBAR", "MEMBAR", "CCTL") or (
            name == "CCTLL" and form.variant != "stack"
        ):
            op.function = self._core.others["nothing"]
        elif name in CTA_INSTRUCTIONS:
            self._barrier(form, values, op, rows)
        else:
            self._flow(form, values, op, rows, address)
        plan = ExecutionPlan(op, {helper[0]: helper[1]} if helper[0] else {}, helper=helper[0])
        self._point(plan, rows)
        return plan

    @staticmethod
    def _point(plan: ExecutionPlan, rows: _RowNumbers) -> None:
        plan.uniform = rows.content()
        if plan.uniform is not None:
            plan.op.uniform = plan.uniform.ctypes.data

    def _computed(self, form: Form, values: Values, op: NativeOp) -> ExecutionPlan:
        """Returns the plan of an instruction that was translated."""
        maker = compute_action if form.name in OPERATIONS else SYSTEM[form.name]
        if form.name == "SHFL":
            ShuffleMode(values["mode"])
        shape = shape_of(maker, form, values)
        if (
            shape is None
            or len(shape.rows) > len(op.rows)
            or len(shape.predicates) > len(op.predicates)
        ):
            raise _UnsupportedError
        rows, immediates = _RowNumbers(op), immediate_fields(form)
        for slot in shape.rows:
            if slot.name == CONSTANT:
                rows.add_word(self._constant(form, values, slot.word))
            elif slot.name in immediates:
                rows.add_word(values[slot.name] >> 32 * slot.word)
            elif slot.is_written:
                rows.add_written(values[slot.name], slot.word)
            else:
                rows.add_read(values[slot.name], slot.word)
        for place, slot in enumerate(shape.predicates):
            op.predicates[place] = self._predicate(values[slot.name], slot)
        plan = ExecutionPlan(op, {shape.name: shape.text}, function=shape.name)
        self._point(plan, rows)
        return plan

    @staticmethod
    def _predicate(number: int, slot: DecodedSlot) -> int:
        return _DISCARDED_PREDICATE if slot.is_written and number == PT else number

    def _constant(self, form: Form, values: Values, word: int) -> int:
        """Reads a word of the constant operand."""
        operand = next(
            operand for operand in form.operands.values() if isinstance(operand, Constant)
        )
        address = constant_address(values, operand) + 4 * word
        return constant_word(self._machine, values[operand.bank], address, optional=bool(word))

    def _special_register(
        self, values: Values, op: NativeOp, rows: _RowNumbers
    ) -> np.ndarray | None:
        number = values["special"]
        rows.add_written(values["Rd"])
        if number in _LIVE:
            raise _UnsupportedError
        if number in _AXES:
            op.function, op.a = self._core.others["cta_index"], _AXES.index(number)
            return None
        if number in (*_LOW_CLOCKS, *_HIGH_CLOCKS):
            op.function, op.a = self._core.others["clock_word"], 32 if number in _HIGH_CLOCKS else 0
            return None
        op.function, op.a = self._core.others["special"], number == SpecialRegister.VIRTID
        if number not in self._special:
            self._special[number] = self._special_rows(number)
        op.uniform = self._special[number].ctypes.data
        return self._special[number]

    def _special_rows(self, number: int) -> np.ndarray:
        """Returns the values of a special register, 32 for each slot, or for each number of a warp
        in its CTA.
        """
        machine, read = self._machine, special_register(number)
        by_slot = number == SpecialRegister.VIRTID
        return np.concatenate(
            [
                read(machine, _WarpPosition(place, thread_index(machine.launch, place)))  # type: ignore[arg-type]
                for place in range(machine.slots if by_slot else machine.launch.warps)
            ]
        ).astype(np.uint32)

    def _address(self, form: Form, values: Values, op: NativeOp, rows: _RowNumbers) -> None:
        """Sets the rows of the address register, rows 0 and 1, and the offset."""
        operand = form.operands["address"]
        assert isinstance(operand, Address)
        number = values[operand.register]
        rows.add_read(number)
        rows.add_read(number, 1)
        wide = operand.wide is not None and values[operand.wide]
        if number == RZ:
            fixed = thread_addresses(form, values)(None)[0]  # type: ignore[arg-type]
            op.a, op.number = _FIXED, int(fixed)
        else:
            op.a, op.number = _WIDE if wide else _NARROW, values[operand.offset]

    def _transfer(self, form: Form, values: Values, op: NativeOp, rows: _RowNumbers) -> None:
        self._address(form, values, op, rows)
        size, is_load = values["size"], form.name.startswith("LD")
        op.function = int(
            (self._core.loads if is_load else self._core.stores)[_SPACES[form.name], size]
        )
        for word in range(max(1, size_bytes(size) // 4)):
            (rows.add_written if is_load else rows.add_read)(values["Rd"], word)

    def _constant_load(self, form: Form, values: Values, op: NativeOp, rows: _RowNumbers) -> None:
        operand = form.operands["a"]
        assert isinstance(operand, Constant)
        size = values["size"]
        op.function, op.b = int(self._core.constant_loads[size]), values[operand.bank]
        op.c = operand.index is not None and values[operand.index] != RZ
        op.number = values[operand.offset]
        rows.add_read(values["Ra"])
        rows.add(_DISCARDED_ROW)
        for word in range(max(1, size_bytes(size) // 4)):
            rows.add_written(values["Rd"], word)

    def _atomic(
        self, form: Form, values: Values, op: NativeOp, rows: _RowNumbers
    ) -> tuple[str, str]:
        self._address(form, values, op, rows)
        shared, helper = form.name == "ATOMS", ("", "")
        if "c" in form.operands:
            kind = CompareAndSwapType(values["compare_and_swap"]) if shared else None
            wide = kind in WIDE_SWAPS if shared else bool(values["wide_data"])
            first = values["Rb"]
            second = RZ if first == RZ else first + 1 + wide
            if isinstance(form.operands["b"], Literal):
                sources = (RZ, first)
            else:
                sources = (first, RZ if isinstance(form.operands["c"], Literal) else second)
            op.d, result = _TESTS if kind in TESTING_SWAPS else _SWAPS, values["Rd"]
        else:
            types = (AtomicType.U32, AtomicType.S32, AtomicType.U64, AtomicType.S64)
            kind = types[values["type"]] if shared else AtomicType(values["type"])
            operation = AtomicOperation(values["operation"])
            wide, op.c = (
                kind in (AtomicType.U64, AtomicType.S64),
                kind in (AtomicType.S32, AtomicType.S64),
            )
            op.b, op.d = operation.value, _MODIFIES
            if kind is AtomicType.F32:
                op.d, helper = _ADDS_FLOATS, function_of(float_sums)
            elif kind is AtomicType.U128 or operation is AtomicOperation.SAFEADD:
                raise _UnsupportedError
            sources = (values["Rd" if form.name == "RED" else "Rb"], RZ)
            result = RZ if form.name == "RED" else values["Rd"]
        for source in sources:
            rows.add_read(source)
            rows.add_read(source, 1)
        rows.add_written(result)
        rows.add_written(result, 1)
        op.function = int(self._core.atomics[int(shared), int(wide)])
        return helper

    def _barrier(self, form: Form, values: Values, op: NativeOp, rows: _RowNumbers) -> None:
        if form.name == "B2R" and BarrierRead(values["mode"]) is BarrierRead.RESULT:
            op.function = self._core.others["barrier_result"]
            rows.add_written(values["Rd"])
            op.predicates[0] = _DISCARDED_PREDICATE if values["Pd"] == PT else values["Pd"]
            return
        if form.name != "BAR" or BarrierMode(values["mode"]) is BarrierMode.SYNCALL:
            raise _UnsupportedError
        op.function, op.a = self._core.others["barrier"], values["mode"]
        for key in "ab":
            operand = form.operands[key]
            if isinstance(operand, Register):
                rows.add_read(values[operand.field])
            else:
                assert isinstance(operand, Immediate)
                rows.add_word(values[operand.field])
        op.c = is_packed(form)
        if BarrierMode(values["mode"]) in (BarrierMode.RED, BarrierMode.SCAN):
            op.b, op.d, op.predicates[0] = (
                values.get("reduction", 0),
                values["Pc_not"],
                values["Pc"],
            )

    def _flow(
        self, form: Form, values: Values, op: NativeOp, rows: _RowNumbers, address: int
    ) -> None:
        name, others = form.name, self._core.others
        if name in ("BRA", "JMP"):
            op.function, op.a, op.b = (
                others["branch"],
                bool(values["uniform"]),
                bool(values["limited"]),
            )
            op.target = self._target(form, values, address)
        elif name in ("CAL", "JCAL"):
            op.function, op.a = others["call"], bool(values["counted"])
            op.target = self._target(form, values, address)
        elif name in _PUSHES:
            op.function, op.a, op.b = (
                others["push_token"],
                bool(values.get("counted", 0)),
                _PUSHES[name].value,
            )
            op.target = self._target(form, values, address, checked=False)
        elif name in _LEAVES:
            op.function, op.b = others["leave"], bool(values.get("keep_reference", 0))
            to = _LEAVES[name]
            op.a = len(DISABLED) if to is None else DISABLED.index(to)
        elif name in ("BRX", "JMX"):
            op.function, op.a, op.b = (
                others["indexed_branch"],
                name == "JMX",
                bool(values["limited"]),
            )
            rows.add_read(values["Ra"])
            operand = form.operands["target"]
            if isinstance(operand, Constant):
                op.c, op.d, op.number = 1, values[operand.bank], values[operand.offset]
                op.e = operand.index is not None and values[operand.index] != RZ
            else:
                op.number = values["target"]
        else:
            raise _UnsupportedError

    def _target(self, form: Form, values: Values, address: int, checked: bool = True) -> int:
        """Returns a target that is the same for all threads at all times."""
        nobody = WarpMasks(0)
        record = Retirement(0, address, 0, nobody, nobody, 0, 0, 0)
        locate: Callable[[Core, Retirement, int], int] = target_of(form, values)
        target = locate(self._machine, record, 0)
        if checked and target % 8:
            raise _UnsupportedError
        return target
