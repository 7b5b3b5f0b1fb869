"""Translates an instruction to a C function, by running its action once on values that record the
operations on them.

Instructions that differ only in registers, predicates, immediates and constants share one function,
their *shape*, which reads these operands from the decoded instruction. So there are few functions,
and a new kernel seldom needs a new one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np

from rtl.isa.syntax import PT, RZ, Access, Constant, Form, Immediate, Predicate, Register, Values
from rtl.params import WARP_THREADS

from ..action import Maker
from ..vector.lanes import Condition
from .recording import (
    Mask,
    RecordedNode,
    RecordedScalar,
    UnrecordableError,
    Vector,
    as_mask,
    as_vector,
    c_type,
    literal,
)

__all__ = [
    "CONSTANT",
    "DecodedSlot",
    "NativeFunction",
    "function_of",
    "immediate_fields",
    "shape_key",
    "shape_of",
]

CONSTANT = "constant"
"""The name of a constant operand among the operands that an instruction reads."""
_SPAN = 16
"""Recorded registers of one field are numbered from a multiple of this on."""
_FIRST_PREDICATE = 16
_OFFSET = 256
_SOURCES = ("a", "b", "c")
_MASKS = ("mask", "reduce", "input")
"""The kinds of nodes that are masks."""


@dataclass(frozen=True)
class DecodedSlot:
    """An entry in a table of the decoded instruction: a word of the operand in a field, which is
    read or written.

    A predicate has one word.
    """

    name: str
    word: int
    is_written: bool


@dataclass(frozen=True)
class NativeFunction:
    """A C function: its name, its text, and the operands that it reads from the decoded
    instruction.

    Attributes:
        rows: Rows of registers, immediates and constants.
        predicates: Predicates.
    """

    name: str
    text: str
    rows: tuple[DecodedSlot, ...]
    predicates: tuple[DecodedSlot, ...]


def _operand_fields(form: Form) -> tuple[dict[str, bool], dict[str, bool], set[str], set[str]]:
    """Returns the fields of registers and of predicates (with whether each is written), of
    immediates, and of parts of constants.
    """
    registers, predicates, immediates, constants = {}, {}, set(), set()
    for key, operand in form.operands.items():
        match operand:
            case Register(field=field):
                registers[field] = True
            case Predicate(field=field, access=access):
                predicates[field] = predicates.get(field, False) or access is not Access.READ
            case Immediate(field=field) if key in _SOURCES:
                immediates.add(field)
            case Constant(bank=bank, offset=offset):
                constants |= {bank, offset}
    return registers, predicates, immediates, constants


def immediate_fields(form: Form) -> set[str]:
    """Returns the fields of the sources that are immediates."""
    return _operand_fields(form)[2]


def shape_key(form: Form, values: Values) -> tuple[Any, ...]:
    """Returns the key that instructions of one shape share."""
    registers, predicates, immediates, constants = _operand_fields(form)
    left_out = {*registers, *immediates, *constants, "guard", "guard_not"}
    fixed = tuple(
        (name, value)
        for name, value in values.items()
        if name not in left_out and name not in predicates
    )
    unwritten = tuple(
        name for name, written in predicates.items() if written and values[name] == PT
    )
    return form.name, form.variant, fixed, unwritten


class _RecordedRows:
    """The registers of the recorded warp, by the numbers that represent fields."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = fields

    def __getitem__(self, number: int) -> Any:
        if number == RZ:
            return np.zeros(WARP_THREADS, np.uint32)
        return Vector(
            RecordedNode(
                "row", f"{self._fields[number // _SPAN - 1]}.{number % _SPAN}", np.dtype(np.uint32)
            )
        )


class _Predicates:
    """The predicates of the recorded warp, by the numbers that represent fields, or by their own."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = fields

    def name(self, number: int) -> str:
        """Returns the symbol of a predicate."""
        return (
            self._fields[number - _FIRST_PREDICATE] if number >= _FIRST_PREDICATE else str(number)
        )

    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(PT + 1))]
        return Mask(RecordedNode("input", f"predicate.{self.name(number)}", np.dtype(np.uint32)))

    def __iter__(self) -> Iterator[Mask]:
        return (self[number] for number in range(PT + 1))


class _Core:
    """The machine as a recorded instruction sees it."""

    def constant(self, bank: int, address: int, size: int, error: object) -> Any:
        """Returns a word of a constant operand."""
        return RecordedScalar(CONSTANT) >> 8 * (address - _OFFSET)


class _Warp:
    """A warp that records what an instruction reads and writes."""

    def __init__(self, registers: Sequence[str], predicates: Sequence[str]) -> None:
        self.rows = _RecordedRows(registers)
        self.predicates = _Predicates(predicates)
        flags: Any = [
            Mask(RecordedNode("input", f"condition.{flag}", np.dtype(np.uint32)))
            for flag in range(4)
        ]
        self.condition: Any = Condition(*flags)
        self._registers = registers
        self.written: list[tuple[str, RecordedNode, RecordedNode]] = []
        """Written rows: the symbol of the row, its value, and the mask of threads."""
        self.masks: list[tuple[str, RecordedNode, RecordedNode]] = []
        """Written predicates and flags, likewise."""

    def write_register(self, record: object, number: int, value: Any, threads: Any) -> None:
        """Records a write; see :meth:`.state.Warp.write_register`."""
        if number != RZ:
            name = f"{self._registers[number // _SPAN - 1]}.{number % _SPAN}"
            self.written.append((name, as_vector(value, np.dtype(np.uint32)), as_mask(threads)))

    def write_predicate(self, record: object, number: int, value: Any, threads: Any) -> None:
        """Records a write; see :meth:`.state.Warp.write_predicate`."""
        if number != PT:
            self.masks.append(
                (f"predicate.{self.predicates.name(number)}", as_mask(value), as_mask(threads))
            )

    def write_condition(self, record: object, value: Condition, threads: Any) -> None:
        """Records a write; see :meth:`.state.Warp.write_condition`."""
        for flag, mask in enumerate((value.zero, value.sign, value.carry, value.overflow)):
            self.masks.append((f"condition.{flag}", as_mask(mask), as_mask(threads)))


_THREADS = Mask(RecordedNode("input", "threads", np.dtype(np.uint32)), holds=True)


def _recorded(make: Maker, form: Form, values: Values) -> _Warp:
    """Runs the instruction on a recording warp, and returns that."""
    registers, predicates, immediates, constants = _operand_fields(form)
    stand_ins: dict[str, Any] = dict(values)
    for number, name in enumerate(registers):
        stand_ins[name] = (number + 1) * _SPAN
    for number, (name, written) in enumerate(predicates.items()):
        stand_ins[name] = PT if written and values[name] == PT else _FIRST_PREDICATE + number
    stand_ins |= {name: RecordedScalar(name) for name in immediates}
    stand_ins |= dict.fromkeys(constants, _OFFSET)
    warp = _Warp(tuple(registers), tuple(predicates))
    action: Callable[..., None] = make(form, stand_ins)
    action(_Core(), warp, _THREADS, None)
    return warp


class _CWriter:
    """Writes the C of recorded values.

    The code has stages: a loop over the threads, then the masks made of its results, then the next
    loop, which may use these masks or other threads' results. Each loop recomputes the values of
    earlier loops that it needs, except stored ones.
    """

    def __init__(self) -> None:
        self.rows: list[DecodedSlot] = []
        self.predicates: list[DecodedSlot] = []
        self._head: list[str] = []
        self._lines: list[str] = []
        self._names: dict[RecordedNode, str] = {}
        """The C names of masks, tables and rows."""
        self._stored: dict[RecordedNode, str] = {}
        """The C arrays of values that a loop has stored."""
        self._stages: dict[RecordedNode, int] = {}

    def stage(self, node: RecordedNode) -> int:
        """Returns the index of the first loop in which a vector can be computed, or the number of
        loops before a mask.
        """
        if node not in self._stages:
            stages = [self.stage(argument) for argument in node.arguments]
            if node.kind in ("reduce", "gather"):
                stages[0] += 1
            self._stages[node] = max(stages, default=0)
        return self._stages[node]

    @staticmethod
    def _place(table: list[DecodedSlot], slot: DecodedSlot) -> int:
        if slot not in table:
            table.append(slot)
        return table.index(slot)

    def row(self, name: str, is_written: bool = False) -> int:
        """Returns the position of a row in the instruction's table."""
        field, _, word = name.rpartition(".")
        return self._place(self.rows, DecodedSlot(field, int(word), is_written))

    def mask_place(self, name: str, is_written: bool = False) -> str:
        """Returns the C expression of a predicate or a flag."""
        kind, which = name.split(".")
        if kind == "condition":
            return f"w->condition[{which}]"
        if which.isdecimal():
            return f"w->predicates[{which}]"
        return f"w->predicates[op->predicates[{self._place(self.predicates, DecodedSlot(which, 0, is_written))}]]"

    def _leaf(self, node: RecordedNode) -> str:
        """Declares a value that exists before the first loop; returns its C expression."""
        name = f"{node.kind[0]}{len(self._names)}"
        if node.kind == "row":
            self._head.append(f"const u32 *{name} = source(w, op, {self.row(node.text)});")
            name += "[i]"
        elif node.kind == "input":
            if node.text == "threads":
                return "threads"
            self._head.append(f"const u32 {name} = {self.mask_place(node.text)};")
        else:
            content = ", ".join(literal(value, node.dtype) for value in node.content)
            self._head.append(f"static const {c_type(node.dtype)} {name}[] = {{{content}}};")
        return name

    def mask(self, node: RecordedNode) -> str:
        """Returns the name of a mask; the loops before it must have been written."""
        if node not in self._names:
            if node.kind == "input":
                self._names[node] = self._leaf(node)
            elif node.kind == "reduce":
                name = self._names[node] = f"m{len(self._names)}"
                self._lines.append(f"u32 {name} = 0;")
                value = self._stored[node.arguments[0]]
                self._lines.append(
                    f"for (int i = 0; i < LANES; i++) {name} |= (u32){value}[i] << i;"
                )
            else:
                arguments = [self.mask(argument) for argument in node.arguments]
                name = self._names[node] = f"m{len(self._names)}"
                self._lines.append(f"const u32 {name} = {node.text.format(*arguments)};")
        return self._names[node]

    def value(self, node: RecordedNode, body: list[str], local: dict[RecordedNode, str]) -> str:
        """Returns the name of a value inside a loop."""
        if node.kind in _MASKS:
            return self.mask(node)
        if node.kind in ("row", "table"):
            if node not in self._names:
                self._names[node] = self._leaf(node)
            return self._names[node]
        if node not in local:
            if node.kind == "gather":
                arguments = [
                    self._stored[node.arguments[0]],
                    self.value(node.arguments[1], body, local),
                ]
            else:
                arguments = [self.value(argument, body, local) for argument in node.arguments]
            text = node.text.format(*arguments)
            if not node.arguments:
                return text
            local[node] = f"v{len(local)}"
            body.append(f"const {c_type(node.dtype)} {local[node]} = {text};")
        return local[node]

    def _masks_in(self, node: RecordedNode, seen: dict[RecordedNode, None]) -> None:
        """Collects the nodes that a value depends on, down to masks."""
        for argument in node.arguments:
            if argument not in seen:
                seen[argument] = None
                if argument.kind not in _MASKS:
                    self._masks_in(argument, seen)

    def loop(self, stage: int, stored: Sequence[RecordedNode]) -> None:
        """Writes one loop, which stores the values that later loops, masks and results need."""
        seen: dict[RecordedNode, None] = {}
        for node in stored:
            self._masks_in(node, seen)
        for node in seen:
            if node.kind in _MASKS:
                self.mask(node)
        body: list[str] = []
        local: dict[RecordedNode, str] = {}
        for node in stored:
            value = self.value(node, body, local)
            name = f"s{len(self._stored)}"
            # A condition is stored as a word, so that a shift makes it a bit of a mask.
            kind = "u32" if node.dtype == np.dtype(np.bool_) else c_type(node.dtype)
            self._lines.append(f"{kind} {name}[LANES];")
            body.append(f"{name}[i] = {value};")
            self._stored[node] = name
        if body:
            self._lines += [
                "for (int i = 0; i < LANES; i++) {",
                *(f"    {line}" for line in body),
                "}",
            ]

    def write(self, warp: _Warp) -> str:
        """Returns the body of the function."""
        roots = [node for _, *nodes in (*warp.written, *warp.masks) for node in nodes]
        wanted: dict[RecordedNode, None] = {node: None for _, node, _ in warp.written}
        seen: set[RecordedNode] = set()

        def visit(node: RecordedNode) -> None:
            if node in seen:
                return
            seen.add(node)
            for argument in node.arguments:
                visit(argument)
            if node.kind in ("reduce", "gather"):
                wanted[node.arguments[0]] = None

        for node in roots:
            visit(node)
        for stage in range(max((self.stage(node) for node in roots), default=0) + 1):
            self.loop(stage, [node for node in wanted if self.stage(node) == stage])
        masks = [
            (self.mask_place(name, True), self.mask(value), self.mask(threads))
            for name, value, threads in warp.masks
        ]
        for name, value, threads in warp.written:
            where = f"w->registers + LANES * op->rows[{self.row(name, True)}]"
            self._lines.append(f"write_row({where}, {self._stored[value]}, {self.mask(threads)});")
        self._lines += [
            f"write_mask(&{place}, {value}, {threads});" for place, value, threads in masks
        ]
        return "\n    ".join([*self._head, *self._lines])


_shapes: dict[tuple[Any, ...], NativeFunction | None] = {}


def shape_of(make: Maker, form: Form, values: Values) -> NativeFunction | None:
    """Returns the shape of an instruction whose action ``make`` makes; None without a translation."""
    key = shape_key(form, values)
    if key not in _shapes:
        try:
            _shapes[key] = _translated(_recorded(make, form, values))
        except (UnrecordableError, TypeError, AttributeError, ValueError, KeyError):
            _shapes[key] = None
    return _shapes[key]


def _translated(warp: _Warp) -> NativeFunction:
    writer = _CWriter()
    body = writer.write(warp)
    name = f"op_{sha256(body.encode()).hexdigest()[:24]}"
    text = (
        f'extern "C" int {name}(Machine *, Warp *w, const Op *op, u32 threads) {{\n    if (!threads)\n'
        f"        return DONE;\n    {body}\n    return DONE;\n}}\n"
    )
    return NativeFunction(name, text, tuple(writer.rows), tuple(writer.predicates))


@lru_cache
def function_of(operation: Callable[[Any, Any], Any]) -> tuple[str, str]:
    """Returns name and text of a C function of two words that computes an operation on two vectors
    of words.

    It serves operations that are executed thread by thread.
    """
    word = np.dtype(np.uint32)
    result = as_vector(
        operation(*(Vector(RecordedNode("vector", name, word)) for name in ("first", "second"))),
        word,
    )
    body: list[str] = []
    value = _CWriter().value(result, body, {})
    lines = "\n    ".join([*body, f"return {value};"])
    name = f"f_{sha256(lines.encode()).hexdigest()[:24]}"
    return name, f'extern "C" u32 {name}(u32 first, u32 second) {{\n    {lines}\n}}\n'
