"""The predecoder of a serial machine: walks through the instruction table, a bit of the word a
cycle."""

from functools import cache, partial
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component
from rtl.fetch.outcomes import Condition, Outcomes
from rtl.fetch.predecode import (
    CONSTANT_FIELDS,
    PLACES,
    Predecoded,
    constant_of,
    has_group,
    kind_of,
    refuse,
)
from rtl.isa.legality import exists, register_groups, rules
from rtl.isa.rate import quarter_rules
from rtl.isa.syntax import RZ, WORD_BITS, Field, Form
from rtl.isa.table import FORMS
from rtl.layouts import InstructionKind
from rtl.pick import pick
from rtl.structs import common_fields
from rtl.wires import IN_BLOCKS
from rtl.word import field_of

from .diagram import Decision, Diagram, Leaf

__all__ = ["InstructionDiagram", "WalkingPredecoder", "WordFacts"]

_GROUP_SIZES = (0, 1, 2, 4)
"""Registers of a group, by the code of its size; a place without one has none."""
_SINGLE = 1
_NO_GROUPS = (0,) * len(PLACES)


class WordFacts(NamedTuple):
    """The decoded fields in a leaf of the diagram.

    ``groups``: of each of PLACES, the code of the size of the register group that begins there.
    Other fields: see Predecoded.
    """

    kind: InstructionKind = InstructionKind.REFUSED
    quarter: int = 0
    constant: int = 0
    illegal: int = 0
    groups: tuple[int, ...] = _NO_GROUPS


def word_facts() -> data.StructLayout:
    """WordFacts as bits."""
    return data.StructLayout({
        "kind": InstructionKind,
        "quarter": 1,
        "constant": range(len(CONSTANT_FIELDS) + 1),
        "illegal": 1,
        "groups": data.ArrayLayout(range(len(_GROUP_SIZES)), len(PLACES)),
    })


class InstructionDiagram:
    """The instruction table as a decision diagram, whose leaves are WordFacts.

    Attributes
    ----------
    diagram : Diagram
    root : int
        The node at which the word's first bit is read.
    """

    def __init__(self, floats: bool, doubles: bool) -> None:
        self.diagram = Diagram()
        self._floats = floats
        self._doubles = doubles
        self._illegal = self.diagram.leaf(WordFacts(illegal=1))
        self.root = self._illegal
        # Forms with more fixed bits have priority over the forms that they are special cases of.
        for form in sorted(FORMS, key=lambda form: form.mask.bit_count()):
            node = self._of_form(form) if exists(form, floats, doubles) else self._illegal
            fixed_bits = {
                bit: form.match >> bit & 1 for bit in range(WORD_BITS) if form.mask >> bit & 1}
            self.root = self.diagram.choose(self.diagram.where(fixed_bits), node, self.root)

    def facts_of(self, word: int) -> WordFacts:
        """Its decoded fields."""
        node = self.diagram.nodes[self.root]
        while isinstance(node, Decision):
            node = self.diagram.nodes[node.one if word >> node.bit & 1 else node.zero]
        return node.value

    def _of_form(self, form: Form) -> int:
        """What a word of a form is."""
        node = self._of_groups(form, (), quarter=0)
        for rule in quarter_rules(form):
            in_quarters = self._of_groups(form, (), quarter=1)
            node = self._when(Outcomes(form, rule).when(bool), in_quarters, node)
        for rule in rules(form, self._floats, self._doubles):
            node = self._when(Outcomes(form, rule).when(bool), self._illegal, node)
        return node

    def _of_groups(self, form: Form, sizes: tuple[int, ...], quarter: int) -> int:
        """What a word of a form is, if these are the sizes of the groups at the first places."""
        if len(sizes) == len(PLACES):
            place = constant_of(form)
            constant = 0 if place is None else CONSTANT_FIELDS.index(place) + 1
            return self.diagram.leaf(WordFacts(kind_of(form), quarter, constant, groups=sizes))
        groups = Outcomes(form, partial(register_groups, form))
        place = PLACES[len(sizes)]
        names = [name for name in next(iter(groups)) if form.fields[name] == place]
        node = self._of_groups(form, (*sizes, len(names)), quarter)
        for name in names:
            for code, size in enumerate(_GROUP_SIZES):
                if code > _SINGLE:
                    larger = self._of_groups(form, (*sizes, code), quarter)
                    is_larger = groups.when(partial(has_group, name, size))
                    node = self._when(is_larger, larger, node)
        return node

    def _when(self, condition: Condition, yes: int, no: int) -> int:
        """One function where a condition holds, and another one elsewhere."""
        bits = _bits_of(condition.fields)
        return self.diagram.choose(self.diagram.among(bits, condition.codes), yes, no)


def _bits_of(fields: tuple[Field, ...]) -> list[int]:
    """Where joined fields are in the word."""
    pieces = (piece for field in fields for piece in field.pieces)
    return [lowest + bit for lowest, width in pieces for bit in range(width)]


_diagram_of = cache(InstructionDiagram)


class WalkingPredecoder(Component):
    """Decodes a word by the instruction table, step by step. ::

        works --> WALK: a node of the diagram a cycle --> REGISTERS: a place a cycle --> done

    WALK reads the table, a decision diagram in block RAM: a node names a bit of the word, and the
    node that follows if it is 0, or 1. A leaf has the form's fields. Then REGISTERS compares the
    register numbers, one place of the word after the other.

    Its result equals a Predecoder's, except that for an illegal encoding only that flag is set.

    Members
    -------
    word, registers
        See Predecoder; they are stable while ``works`` is 1.
    works : In(1)
        Decodes, from the first node on.
    done, predecoded : Out(1), Out(Predecoded)
        For one cycle: the result, which is kept until ``works`` rises again.
    """

    def __init__(self, floats: bool, doubles: bool) -> None:
        diagram = _diagram_of(floats, doubles)
        numbers = {
            node: number for number, node in enumerate(diagram.diagram.reached(diagram.root))}
        self._number_bits = ceil_log2(len(numbers))
        self._node = data.StructLayout({
            "is_leaf": 1,
            "content": data.UnionLayout({
                "decision": data.StructLayout({
                    "bit": range(WORD_BITS),
                    "zero": self._number_bits,
                    "one": self._number_bits,
                }),
                "facts": word_facts(),
            }),
        })
        self._rows: list[Any] = [
            _row_of(diagram.diagram.nodes[node], numbers) for node in numbers]
        super().__init__({
            "word": In(WORD_BITS),
            "registers": In(9),
            "works": In(1),
            "done": Out(1),
            "predecoded": Out(Predecoded),
        })
        self._facts: Any = Signal(word_facts())
        """The leaf's fields."""
        self._has_facts = Signal()
        """The walk has reached a leaf; registers are checked."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._walk(m)
        is_out_of_range, is_misaligned = self._check_registers(m)
        facts = self._facts
        m.d.comb += common_fields(self.predecoded, facts)
        refuse(m, self.predecoded, facts.illegal, is_out_of_range, is_misaligned)
        return m

    def _walk(self, m: Module) -> None:
        """WALK: from the root, row 0, to a leaf. ``_has_facts`` follows the leaf by a cycle; until
        then what is read as facts may be a decision."""
        m.submodules.nodes = nodes = memory.Memory(
            shape=self._node, depth=1 << self._number_bits, init=self._rows, attrs=IN_BLOCKS)
        port: Any = nodes.read_port(domain="comb")
        node: Any = Signal(self._node)
        decision = node.content.decision
        with m.If(~self.works):
            m.d.comb += port.addr.eq(0)
        with m.Elif(self.word.bit_select(decision.bit, 1)):
            m.d.comb += port.addr.eq(decision.one)
        with m.Else():
            m.d.comb += port.addr.eq(decision.zero)
        m.d.sync += node.eq(port.data)
        m.d.sync += self._has_facts.eq(self.works & (self._has_facts | node.is_leaf))
        with m.If(self.works & ~self._has_facts):
            m.d.sync += self._facts.eq(node.content.facts)

    def _check_registers(self, m: Module) -> tuple[Value, Value]:
        """REGISTERS: whether the launch does not have a register, and whether a group of registers
        is not aligned to its size."""
        place = Signal(range(len(PLACES)))
        is_out_of_range = Signal()
        is_misaligned = Signal()
        number = pick((field_of(self.word, each) for each in PLACES), place)
        size = pick(self._facts.groups, place)
        more = Cat(size[1], size.all())         # registers behind the first one: 0, 1 or 3
        is_used = size.any() & (number != RZ)
        m.d.sync += place.eq(Mux(self._has_facts, place + 1, 0))
        m.d.sync += self.done.eq(self._has_facts & (place == len(PLACES) - 1))
        with m.If(self.works & ~self._has_facts):
            m.d.sync += is_out_of_range.eq(0)
            m.d.sync += is_misaligned.eq(0)
        with m.Elif(self._has_facts & is_used):
            with m.If(number + more >= self.registers):
                m.d.sync += is_out_of_range.eq(1)
            with m.If((number & more).any()):
                m.d.sync += is_misaligned.eq(1)
        return is_out_of_range, is_misaligned


def _row_of(node: Leaf | Decision, numbers: dict[int, int]) -> dict[str, Any]:
    """A node of the diagram, as a row of the memory of nodes."""
    if isinstance(node, Leaf):
        return {"is_leaf": 1, "content": {"facts": node.value._asdict()}}
    decision = {"bit": node.bit, "zero": numbers[node.zero], "one": numbers[node.one]}
    return {"is_leaf": 0, "content": {"decision": decision}}
