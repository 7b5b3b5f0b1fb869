"""The predecoder of a serial machine: a bit of the word after the other."""

from functools import cache, partial
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.component import Component, pass_on
from rtl.fetch.outcomes import Condition, Outcomes
from rtl.fetch.predecode import CONSTANT_FIELDS, PLACES, Predecoded, constant_of, has_group, kind_of
from rtl.isa.errors import WarpError
from rtl.isa.legality import exists, register_groups, rules
from rtl.isa.rate import quarter_rules
from rtl.isa.syntax import RZ, WORD_BITS, Field, Form
from rtl.isa.table import FORMS
from rtl.layouts import InstructionKind
from rtl.pick import pick
from rtl.wires import IN_BLOCKS
from rtl.word import field_of

from .diagram import Diagram

__all__ = ["InstructionDiagram", "WalkingPredecoder"]

_SIZES = (0, 1, 2, 4)
"""Registers of a group; a place without one has none."""
_NO_GROUPS = (0,) * len(PLACES)
_TOLD = data.StructLayout({
    "kind": InstructionKind, "quarter": 1, "constant": range(len(CONSTANT_FIELDS) + 1), "illegal": 1,
    "groups": data.ArrayLayout(range(len(_SIZES)), len(PLACES))})
"""What the form of a word says; of each of PLACES, the number of the size of the group that begins there."""


class Told(NamedTuple):
    """The same, of a leaf of the diagram."""

    kind: InstructionKind = InstructionKind.REFUSED
    quarter: int = 0
    constant: int = 0
    illegal: int = 0
    groups: tuple[int, ...] = _NO_GROUPS


def _bits(fields: tuple[Field, ...]) -> list[int]:
    """Where joined fields are in the word."""
    return [lowest + bit for field in fields for lowest, width in field.pieces for bit in range(width)]


class InstructionDiagram:
    """The instruction table as a diagram, whose leaves are of Told.

    Attributes
    ----------
    diagram, root : Diagram, int
    """

    def __init__(self, floats: bool, doubles: bool) -> None:
        self.diagram = Diagram()
        self._knobs = floats, doubles
        illegal = self.diagram.leaf(Told(illegal=1))
        self.root = illegal
        # Forms with more fixed bits go before those that they are special cases of.
        for form in sorted(FORMS, key=lambda form: form.mask.bit_count()):
            here = self._of_form(form, illegal) if exists(form, floats, doubles) else illegal
            match = self.diagram.where({bit: form.match >> bit & 1 for bit in range(WORD_BITS) if form.mask >> bit & 1})
            self.root = self.diagram.choose(match, here, self.root)

    def told(self, word: int) -> Told:
        """What it says of a word."""
        node = self.diagram.nodes[self.root]
        while len(node) == 3:
            node = self.diagram.nodes[node[1 + (word >> node[0] & 1)]]
        return node[0]

    def _when(self, condition: Condition, yes: int, no: int) -> int:
        return self.diagram.choose(self.diagram.among(_bits(condition.fields), condition.codes), yes, no)

    def _of_form(self, form: Form, illegal: int) -> int:
        """What a word of a form is."""
        groups, where = Outcomes(form, partial(register_groups, form)), constant_of(form)
        constant = 0 if where is None else CONSTANT_FIELDS.index(where) + 1

        def sized(known: tuple[int, ...], quarter: int) -> int:
            """With the sizes of the groups at the first places."""
            if len(known) == len(PLACES):
                return self.diagram.leaf(Told(kind_of(form), quarter, constant, groups=known))
            names = [name for name in next(iter(groups)) if form.fields[name] == PLACES[len(known)]]
            node = sized((*known, len(names)), quarter)
            for name in names:
                for code, size in enumerate(_SIZES[2:], 2):
                    node = self._when(groups.when(partial(has_group, name, size)), sized((*known, code), quarter), node)
            return node

        node = sized((), 0)
        for rule in quarter_rules(form):
            node = self._when(Outcomes(form, rule).when(bool), sized((), 1), node)
        for rule in rules(form, *self._knobs):
            node = self._when(Outcomes(form, rule).when(bool), illegal, node)
        return node


_diagram = cache(InstructionDiagram)


class WalkingPredecoder(Component):
    """Says the same as a Predecoder, of what is no illegal encoding: walks through the instruction table, which is a
    decision diagram in block RAM, with a bit of the word in a cycle, and then looks at one register field after the
    other.

    Members
    -------
    word, registers
        See Predecoder; they stay while it ``works``.
    works : In(1)
        It does, from the first node on.
    over, predecoded : Out(1), Out(Predecoded)
        For one cycle: this is what it is. It stays until ``works`` begins again.
    """

    def __init__(self, floats: bool, doubles: bool) -> None:
        self._table = _diagram(floats, doubles)
        super().__init__({"word": In(WORD_BITS), "registers": In(9), "works": In(1), "over": Out(1),
                          "predecoded": Out(Predecoded)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        diagram = self._table.diagram
        reached = diagram.reached(self._table.root)
        numbers, number_bits = {node: number for number, node in enumerate(reached)}, ceil_log2(len(reached))
        test = data.StructLayout({"bit": range(WORD_BITS), "zero": number_bits, "one": number_bits})
        node_shape = data.StructLayout({
            "leaf": 1, "content": data.UnionLayout({"test": test, "told": _TOLD})})
        rows = []
        for content in (diagram.nodes[node] for node in reached):
            if len(content) == 3:
                bit, *behind = content
                zero, one = (numbers[node] for node in behind)
                rows.append({"leaf": 0, "content": {"test": {"bit": bit, "zero": zero, "one": one}}})
            else:
                rows.append({"leaf": 1, "content": {"told": content[0]._asdict()}})
        m.submodules.nodes = nodes = memory.Memory(
            shape=node_shape, depth=1 << number_bits, init=rows, attrs=IN_BLOCKS)
        port, node, told = nodes.read_port(domain="comb"), Signal(node_shape), Signal(_TOLD)

        # Walk.
        test, found = node.content.test, Signal()
        ahead = Mux(self.word.bit_select(test.bit, 1), test.one, test.zero)
        m.d.comb += port.addr.eq(Mux(self.works, ahead, 0))
        m.d.sync += [node.eq(port.data), found.eq(self.works & (found | node.leaf))]
        with m.If(self.works & ~found):
            m.d.sync += told.eq(node.content.told)

        # Look at registers: whether one is beyond those of the launch, and whether a group of them is not aligned.
        place, beyond, misaligned = Signal(range(len(PLACES))), Signal(), Signal()
        number, size = (pick(each, place) for each in ((field_of(self.word, each) for each in PLACES), told.groups))
        extra, used = Cat(size[1], size.all()), size.any() & (number != RZ)
        m.d.sync += [place.eq(Mux(found, place + 1, 0)), self.over.eq(found & (place == len(PLACES) - 1))]
        with m.If(self.works & ~found):
            m.d.sync += [beyond.eq(0), misaligned.eq(0)]
        with m.Elif(found & used):
            m.d.sync += [
                beyond.eq(beyond | (number + extra >= self.registers)),
                misaligned.eq(misaligned | (number & extra).any())]

        pass_on(m, told, self.predecoded, "kind", "quarter", "constant")
        with m.If(told.illegal | beyond | misaligned):
            m.d.comb += [
                self.predecoded.kind.eq(InstructionKind.REFUSED),
                self.predecoded.error.eq(Mux(told.illegal, WarpError.ILLEGAL_INSTR_ENCODING.value, Mux(
                    beyond, WarpError.OOR_REG.value, WarpError.MISALIGNED_REG.value)))]
        return m
