"""S3 to S5: an instruction's beats, and what each of them reads."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, ShapeLike, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.isa.special_registers import OF_THREADS
from rtl.isa.syntax import RZ
from rtl.layouts import GATHER_REGISTERS, GATHERING, Event, LaneClient
from rtl.one_hot import chosen_of
from rtl.params import SmParams

from .clients import lane_data_port
from .instruction import LaneInstruction, OperandSource, ValueSource
from .predicates import ThreadFlags
from .slots import beat_place, beat_stage, lane_slot
from .stages import LanePart, Operands
from .vote import verdict_of

__all__ = ["OperandStage"]

_A = 0
"""Place of operand a among the registers that are read; b and c likewise."""
_B = 1
_C = 2
assert GATHER_REGISTERS == _C + 1


class OperandStage(Component):
    """Reads registers, predicates and CC a beat a cycle, and chooses the operands. ::

        slot --> S3: place, rows --> S4: registers, special --> S5: operands, stage
                 of the beat         and data of units           of the beat
                     ^                   |
                     +---- next beat ----+

    An instruction that passes the full lanes only has each of its beats in S4 for ``parts`` cycles.
    Its operands are read once and stay in S5, where a full lane takes those of the others one after
    the other. What goes beside the lanes is held until the results of the last part are there.

    Members
    -------
    slot : In(Event of lane_slot)
        The first beat, in S3.
    place, rows : Out(beat_place), Out
        What is read in this cycle, of the beat in S3.
    flags : In(ThreadFlags for each lane)
        Predicates and CC of that beat, in the same cycle.
    has_last_part : Out(1)
        S4: the last part of an instruction that passes the full lanes only.
    registers, blank : In(32 bits for each lane, for each operand), In(1 bit for each operand)
        Registers, in the next cycle. Those of a blank row are 0.
    thread_register, special : Out(1 bit for each of OF_THREADS), In(32 bits for each lane)
        A special register that differs from thread to thread, of the beat in S4; 0 for all others.
    memory, conversion, barrier : see lane_data_port
        The units that gather, and that supply what is written.
    valid, stage, instruction, operands, part : Out
        S5: for the lanes, Operands for each, and what goes beside them.
    supplied_conditions : Out(Flags for each lane)
        S5: CC from a unit.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params

        def of_lanes(shape: ShapeLike) -> data.ArrayLayout:
            return data.ArrayLayout(shape, params.lanes)

        super().__init__({
            "slot": In(Event(lane_slot(params))),
            "place": Out(beat_place(params)),
            "rows": Out(data.ArrayLayout(params.row_bits, GATHER_REGISTERS)),
            "flags": In(of_lanes(ThreadFlags)),
            "has_last_part": Out(1),
            "registers": In(data.ArrayLayout(of_lanes(32), GATHER_REGISTERS)),
            "blank": In(GATHER_REGISTERS),
            "thread_register": Out(len(OF_THREADS)),
            "special": In(of_lanes(32)),
            "memory": Out(lane_data_port(LaneClient.MEMORY, params)),
            "conversion": Out(lane_data_port(LaneClient.CONVERSION, params)),
            "barrier": Out(lane_data_port(LaneClient.BARRIER, params)),
            "valid": Out(1),
            "stage": Out(beat_stage(params)),
            "instruction": Out(LaneInstruction),
            "operands": Out(of_lanes(Operands)),
            "part": Out(LanePart),
            "supplied_conditions": Out(of_lanes(Flags)),
        })
        self._clients = {
            LaneClient.MEMORY: self.memory,
            LaneClient.CONVERSION: self.conversion,
            LaneClient.BARRIER: self.barrier,
        }

        # S3.
        self._has_next_beat = Signal(name="has_next_beat")
        """The instruction in S4 is there in the next cycle, too: with another beat or part."""
        self._beat_is_read = Signal(name="beat_is_read")
        """The beat in S4 leaves: all of its parts are through, if it has parts."""

        # S4.
        self._is_valid = Signal(name="is_valid")
        self._current: Any = Signal(lane_slot(params), name="current")
        self._beat = Signal.like(self.place.beat, name="beat")
        self._part: Any = Signal(LanePart, name="part")
        self._flags = Signal.like(self.flags, name="flags")
        self._reads = Signal(GATHER_REGISTERS, name="reads")
        """The operands that are registers whose row is not blank."""
        self._uniform = Signal(data.ArrayLayout(32, GATHER_REGISTERS), name="uniform")
        """What the operands are in all lanes; 0 where they are registers, or differ otherwise."""
        self._verdict = Signal(name="verdict")
        """What the threads of the warp have voted."""
        self._supplies = {
            client: Signal(name=f"supplies_{client.name.lower()}") for client in self._clients}
        """Whose data the beat writes."""
        self._chosen: list[Any] = [
            Signal(Operands, name=f"chosen_{lane}") for lane in range(params.lanes)]

        # S5.
        self._register_a = [Signal(32, name=f"register_a_{lane}") for lane in range(params.lanes)]
        """The first register of a gather: operand a may be what is written beside it."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._advance(m)
        self._request_data(m)
        self._choose_uniform(m)
        for lane in range(self._params.lanes):
            self._choose_words(m, lane)
            self._choose_predicates(m, lane)
        self._pass_operands(m)
        self._pass_stage(m)
        self._deliver(m)
        return m

    def _advance(self, m: Module) -> None:
        """S3: the first beat of a slot; else the next one, or the next part, of what is in S4."""
        params = self._params
        slot = self.slot
        current = self._current
        is_last_part = self._part.number == params.parts - 1
        is_last_beat = self._beat == params.beats - 1
        m.d.comb += self._part.valid.eq(self._is_valid & current.quarter)
        m.d.comb += self._beat_is_read.eq(~self._part.valid | is_last_part)
        m.d.comb += self.has_last_part.eq(
            self._part.valid & self._beat_is_read & is_last_beat)
        m.d.comb += self._has_next_beat.eq(
            self._is_valid & ~(self._beat_is_read & is_last_beat))

        with m.If(slot.valid):
            m.d.comb += self.place.warp.eq(slot.payload.warp)
            m.d.comb += self.place.beat.eq(0)
            m.d.comb += self.rows.eq(slot.payload.rows)
            m.d.sync += current.eq(slot.payload)
        with m.Else():
            m.d.comb += self.place.warp.eq(current.warp)
            m.d.comb += self.place.beat.eq(self._beat + self._beat_is_read)
            m.d.comb += self.rows.eq(current.rows)
            with m.If(self._has_next_beat & self._beat_is_read):
                m.d.sync += current.threads.eq(current.threads >> params.lanes)
        m.d.sync += Assert(
            ~(slot.valid & self._has_next_beat), "a slot before all beats of the last one")
        m.d.sync += self._is_valid.eq(slot.valid | self._has_next_beat)
        m.d.sync += self._beat.eq(self.place.beat)
        m.d.sync += self._flags.eq(self.flags)
        with m.If(self._part.valid & self._beat_is_read):
            m.d.sync += self._part.number.eq(0)
        with m.Elif(self._part.valid):
            m.d.sync += self._part.number.eq(self._part.number + 1)

    def _request_data(self, m: Module) -> None:
        """S3: the data of a unit's write, of this beat, are there in the next cycle."""
        slot = self.slot
        current = self._current
        for client, port in self._clients.items():
            wanted = port.wanted
            m.d.comb += wanted.beat.eq(self.place.beat)
            with m.If(slot.valid):
                m.d.comb += wanted.valid.eq(
                    slot.payload.is_supplied & (slot.payload.client == client))
                m.d.comb += wanted.index.eq(slot.payload.index)
            with m.Else():
                m.d.comb += wanted.valid.eq(
                    self._has_next_beat & current.is_supplied & (current.client == client))
                m.d.comb += wanted.index.eq(current.index)

    def _choose_uniform(self, m: Module) -> None:
        """S4: where each operand comes from, and what is the same in all lanes: 0 for what is none
        of its own, so that a lane joins all by OR."""
        current = self._current
        instruction = current.instruction
        a_is_register = instruction.source_a == ValueSource.REGISTER
        b_is_register = instruction.source_b == OperandSource.REGISTER
        c_is_register = instruction.source_c == OperandSource.REGISTER
        is_named = [number != RZ for number in instruction.registers]
        m.d.comb += self._reads[_A].eq(
            is_named[_A] & a_is_register & ~current.is_supplied & ~self.blank[_A])
        m.d.comb += self._reads[_B].eq(is_named[_B] & b_is_register & ~self.blank[_B])
        m.d.comb += self._reads[_C].eq(is_named[_C] & c_is_register & ~self.blank[_C])

        m.d.comb += self._uniform[_A].eq(
            _gated(current.uniform, ~a_is_register | current.is_supplied))
        for operand, source in ((_B, instruction.source_b), (_C, instruction.source_c)):
            constant = _gated(current.constant, source == OperandSource.CONSTANT)
            immediate = _gated(instruction.immediate, source == OperandSource.IMMEDIATE)
            m.d.comb += self._uniform[operand].eq(constant | immediate)
        m.d.comb += self.thread_register.eq(current.thread_register)
        m.d.comb += self._verdict.eq(
            verdict_of(instruction.vote, current.agrees, current.objects))
        for client, supplies in self._supplies.items():
            m.d.comb += supplies.eq(current.is_supplied & (current.client == client))

    def _choose_words(self, m: Module, lane: int) -> None:
        """S4: operands a, b and c of a lane."""
        chosen = self._chosen[lane]
        registers = [
            _gated(values[lane], reads)
            for values, reads in zip(self.registers, self._reads, strict=True)]
        m.d.comb += chosen.a.eq(
            registers[_A] | self._uniform[_A] | self.special[lane]
            | self._supplied("values", lane))
        m.d.comb += chosen.b.eq(registers[_B] | self._uniform[_B])
        m.d.comb += chosen.c.eq(registers[_C] | self._uniform[_C])

    def _choose_predicates(self, m: Module, lane: int) -> None:
        """S4: a lane's predicates and CC. A unit's predicate, or a vote, takes the place of x."""
        current = self._current
        instruction = current.instruction
        chosen = self._chosen[lane]
        flags = self._flags[lane]
        held = Cat(flags.predicates, 1)
        x = instruction.predicates[0]
        y = instruction.predicates[1]
        z = instruction.predicates[2]
        m.d.comb += chosen.predicates.eq(flags.predicates)
        m.d.comb += chosen.conditions.eq(flags.condition)
        with m.If(current.is_supplied):
            m.d.comb += chosen.sources[0].eq(self._supplied("flags", lane))
        with m.Elif(instruction.source_a == ValueSource.BALLOT):
            m.d.comb += chosen.sources[0].eq(self._verdict)
        with m.Else():
            m.d.comb += chosen.sources[0].eq(held.bit_select(x.number, 1) ^ x.negated)
        m.d.comb += chosen.sources[1].eq(held.bit_select(y.number, 1) ^ y.negated)
        m.d.comb += chosen.sources[2].eq(held.bit_select(z.number, 1) ^ z.negated)

    def _supplied(self, name: str, lane: int) -> Value:
        """S4: what a unit supplies for a lane; 0 if none does."""
        return reduce(or_, (
            _gated(Cat(getattr(port, name)[lane]), self._supplies[client])
            for client, port in self._clients.items()))

    def _pass_operands(self, m: Module) -> None:
        """S5: to the lanes. With a part, a full lane takes the operands of the lane of that number,
        in which they stay, behind its own."""
        parts = self._params.parts
        part_selects = Cat(self._part.number == number for number in range(parts))
        m.d.sync += self.instruction.eq(self._current.instruction)
        m.d.sync += self.part.eq(self._part)
        for number, (chosen, operands) in enumerate(
                zip(self._chosen, self.operands, strict=True)):
            if number % parts == 0:
                others = [self.operands[number + place] for place in range(1, parts)]
                m.d.sync += operands.eq(chosen_of(
                    part_selects, [source.as_value() for source in (chosen, *others)]))
            else:
                m.d.sync += operands.eq(chosen)
            m.d.sync += self.supplied_conditions[number].eq(self._supplied("conditions", number))

    def _pass_stage(self, m: Module) -> None:
        """S5: beside the lanes. That of a beat in parts is written with the second part, behind the
        results of the last beat, and is valid a cycle behind the last part."""
        current = self._current
        instruction = current.instruction
        stage = self.stage
        parts_are_through = Signal()
        m.d.sync += parts_are_through.eq(self._part.valid & self._beat_is_read)
        m.d.sync += self.valid.eq(parts_are_through | (self._is_valid & ~current.quarter))
        with m.If(~current.quarter | (self._part.number == 1)):
            only_reads = current.gathers | current.collects
            m.d.sync += stage.writes.eq(current.is_supplied | ~only_reads)
            m.d.sync += stage.collects.eq(current.collects)
            m.d.sync += stage.place.warp.eq(current.warp)
            m.d.sync += stage.place.beat.eq(self._beat)
            m.d.sync += stage.serial.eq(current.serial)
            m.d.sync += stage.threads.eq(current.threads)
            m.d.sync += stage.row.eq(current.first_row + instruction.destination)
            m.d.sync += stage.register.eq(instruction.destination)
            m.d.sync += stage.p.eq(instruction.p)
            m.d.sync += stage.q.eq(instruction.q)
            m.d.sync += stage.writes_cc.eq(instruction.writes_cc)
            m.d.sync += stage.is_supplied.eq(current.is_supplied)

    def _deliver(self, m: Module) -> None:
        """S5: what was gathered."""
        current = self._current
        names_a = current.instruction.registers[_A] != RZ
        for lane, register in enumerate(self._register_a):
            m.d.sync += register.eq(_gated(self.registers[_A][lane], names_a & ~self.blank[_A]))
        for client in GATHERING:
            gathered = self._clients[client].gathered
            m.d.sync += gathered.valid.eq(
                self._is_valid & current.gathers & (current.reader == client))
            m.d.sync += gathered.index.eq(current.read_index)
            m.d.sync += gathered.beat.eq(self._beat)
            for lane, values in enumerate(gathered.values):
                operands = self.operands[lane]
                m.d.comb += values.eq(Cat(self._register_a[lane], operands.b, operands.c))


def _gated(value: Any, holds: Value) -> Value:
    """The value, or 0."""
    return value & holds.replicate(len(value))
