"""S3 to S5: the beats of a slot, and their operands."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.syntax import RZ
from rtl.layouts import (
    GATHER_REGISTERS,
    GATHERING,
    Event,
    LaneClient,
    LaneData,
    LaneWriteData,
    operation_beat,
)
from rtl.one_hot import chosen_of
from rtl.params import SmParams
from rtl.structs import struct_value

from .instruction import LaneInstruction, OperandSource, ValueSource
from .reads import FlagRead, RegisterRead, SpecialRead
from .slots import beat_place, beat_record, beat_stage, lane_slot
from .stages import LanePart, Operands
from .vote import verdict_of

__all__ = ["OperandStage"]

_A = 0
"""Position of operand a among the registers that are read; b and c likewise."""
_B = 1
_C = 2
assert GATHER_REGISTERS == _C + 1


class OperandStage(Component):
    """Reads registers, predicates and CC a beat a cycle, and chooses the operands. ::

        slot --> S3: place, rows --> S4: registers, special --> S5: operands, what
                 of the beat         and data of units          goes beside them
                     ^                   |
                     +---- next beat ----+

    A beat of an instruction of a quarter of the rate is in S4 for ``parts`` cycles. Its operands
    are read once and held in S5, where the full lane of each group loads those of the other lanes,
    one at a time. Its record is held until the results of the last part are there.

    Members
    -------
    slot : In(Event of lane_slot)
        The first beat, in S3.
    registers, flags, special : Out(RegisterRead), Out(FlagRead), Out(SpecialRead)
        Reads of the beat in S3.
    has_last_part : Out(1)
        S4: the last part of the last beat of an instruction of a quarter of the rate.
    memory, conversion, barrier : In(LaneData), In(LaneData), In(LaneWriteData)
        The units to which gathers deliver, and that supply the data of writes.
    instruction, operands, part : Out(LaneInstruction), Out(Operands for each lane), Out(LanePart)
        S5: for the lanes.
    beat : Out(Event of beat_stage)
        S5: the record of the beat, and supplied CC, which bypass the lanes.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__({
            "slot": In(Event(lane_slot(params))),
            "registers": Out(RegisterRead(params)),
            "flags": Out(FlagRead(params)),
            "special": Out(SpecialRead(params)),
            "has_last_part": Out(1),
            "memory": In(LaneData(params)),
            "conversion": In(LaneData(params)),
            "barrier": In(LaneWriteData(params)),
            "instruction": Out(LaneInstruction),
            "operands": Out(data.ArrayLayout(Operands, params.lanes)),
            "part": Out(LanePart),
            "beat": Out(Event(beat_stage(params))),
        })
        self._clients = {
            LaneClient.MEMORY: self.memory,
            LaneClient.CONVERSION: self.conversion,
            LaneClient.BARRIER: self.barrier,
        }

        # S3.
        self._place: Any = Signal(beat_place(params), name="place")
        """The beat in S3: its warp and its number."""

        # S4.
        self._is_valid = Signal(name="is_valid")
        """There is a beat, number ``beat_number`` of the slot ``current``."""
        self._current: Any = Signal(lane_slot(params), name="current")
        self._beat = Signal(range(params.beats), name="beat_number")
        self._beat_is_done = Signal(name="beat_is_done")
        """The beat leaves S4: it has no parts, or this is the last one."""
        self._continues = Signal(name="continues")
        """The slot is in S4 in the next cycle, too, with another beat or part."""
        self._part: Any = Signal(LanePart, name="part")
        self._flags = Signal.like(self.flags.flags, name="flags_read")
        self._reads = Signal(GATHER_REGISTERS, name="reads")
        """The operands that are registers whose row is not blank."""
        self._uniform = Signal(data.ArrayLayout(32, GATHER_REGISTERS), name="uniform")
        """Each operand if it is the same in all lanes; else 0."""
        self._verdict = Signal(name="verdict")
        """The outcome of a VOTE."""
        self._supplies = {
            client: Signal(name=f"supplies_{client.name.lower()}") for client in self._clients}
        """The beat writes data of this client."""
        self._chosen: list[Any] = [
            Signal(Operands, name=f"chosen_{lane}") for lane in range(params.lanes)]

        # S5.
        self._register_a = [Signal(32, name=f"register_a_{lane}") for lane in range(params.lanes)]
        """The first register of a gather, in flip-flops besides those of operand a, which has the
        data of a write that shares the slot."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._find_progress(m)
        self._advance(m)
        self._read(m)
        self._request_data(m)
        self._choose_uniform(m)
        for lane in range(self._params.lanes):
            self._choose_operands(m, lane)
        self._pass_operands(m)
        self._pass_stage(m)
        self._deliver(m)
        return m

    def _find_progress(self, m: Module) -> None:
        """S4: whether the beat, and the slot, end in this cycle."""
        is_last_part = self._part.number == self._params.parts - 1
        is_last_beat = self._beat == self._params.beats - 1
        m.d.comb += self._part.valid.eq(self._is_valid & self._current.quarter)
        m.d.comb += self._beat_is_done.eq(~self._part.valid | is_last_part)
        m.d.comb += self._continues.eq(
            self._is_valid & ~(self._beat_is_done & is_last_beat))
        m.d.comb += self.has_last_part.eq(
            self._part.valid & self._beat_is_done & is_last_beat)
        m.d.sync += Assert(
            ~(self.slot.valid & self._continues), "a slot before all beats of the last one")

    def _advance(self, m: Module) -> None:
        """S3: the first beat of a new slot; else the next beat of the slot in S4, or the same beat
        again while it has more parts."""
        slot = self.slot
        current = self._current
        place = beat_place(self._params)
        m.d.sync += self._is_valid.eq(slot.valid | self._continues)
        m.d.sync += self._beat.eq(self._place.beat)
        with m.If(slot.valid):
            m.d.comb += self._place.eq(struct_value(
                place, warp=slot.payload.owner.warp, beat=0))
            m.d.sync += current.eq(slot.payload)
        with m.Else():
            m.d.comb += self._place.eq(struct_value(
                place, warp=current.owner.warp, beat=self._beat + self._beat_is_done))
            with m.If(self._continues & self._beat_is_done):
                m.d.sync += current.threads.eq(current.threads >> self._params.lanes)

        with m.If(self._part.valid & self._beat_is_done):
            m.d.sync += self._part.number.eq(0)
        with m.Elif(self._part.valid):
            m.d.sync += self._part.number.eq(self._part.number + 1)

    def _read(self, m: Module) -> None:
        """S3: the reads of the beat."""
        with m.If(self.slot.valid):
            m.d.comb += self.registers.rows.eq(self.slot.payload.rows)
        with m.Else():
            m.d.comb += self.registers.rows.eq(self._current.rows)
        m.d.comb += self.registers.beat.eq(self._place.beat)
        m.d.comb += self.flags.is_first.eq(self.slot.valid)
        m.d.comb += self.flags.place.eq(self._place)
        m.d.sync += self._flags.eq(self.flags.flags)
        m.d.comb += self.special.place.eq(self._place)
        m.d.comb += self.special.register.eq(self._current.thread_register)

    def _request_data(self, m: Module) -> None:
        """S3: requests the data of this beat from the unit that writes; they are there in S4."""
        slot = self.slot
        write = slot.payload.write
        current_write = self._current.write
        for client, port in self._clients.items():
            wanted = port.wanted
            with m.If(slot.valid):
                m.d.comb += wanted.valid.eq(write.is_present & (write.client == client))
            with m.Else():
                m.d.comb += wanted.valid.eq(
                    self._continues & current_write.is_present & (current_write.client == client))
            m.d.comb += wanted.payload.eq(struct_value(
                operation_beat(self._params),
                index=Mux(slot.valid, write.index, current_write.index),
                beat=self._place.beat))

    def _choose_uniform(self, m: Module) -> None:
        """S4: the source of each operand, and operands that are the same in all lanes. All sources
        but that of the operand are 0, so that a lane combines them by OR."""
        current = self._current
        instruction = current.instruction
        write = current.write
        a_is_register = instruction.source_a == ValueSource.REGISTER
        b_is_register = instruction.source_b == OperandSource.REGISTER
        c_is_register = instruction.source_c == OperandSource.REGISTER
        is_named = [number != RZ for number in instruction.registers]
        m.d.comb += self._reads[_A].eq(
            is_named[_A] & a_is_register & ~write.is_present & ~self.registers.blank[_A])
        m.d.comb += self._reads[_B].eq(is_named[_B] & b_is_register & ~self.registers.blank[_B])
        m.d.comb += self._reads[_C].eq(is_named[_C] & c_is_register & ~self.registers.blank[_C])

        m.d.comb += self._uniform[_A].eq(
            _gated(current.uniform, ~a_is_register | write.is_present))
        for operand, source in ((_B, instruction.source_b), (_C, instruction.source_c)):
            constant = _gated(current.constant, source == OperandSource.CONSTANT)
            immediate = _gated(instruction.immediate, source == OperandSource.IMMEDIATE)
            m.d.comb += self._uniform[operand].eq(constant | immediate)
        m.d.comb += self._verdict.eq(
            verdict_of(instruction.vote, current.votes.agrees, current.votes.objects))
        for client, supplies in self._supplies.items():
            m.d.comb += supplies.eq(write.is_present & (write.client == client))

    def _choose_operands(self, m: Module, lane: int) -> None:
        """S4: a lane's operands: the OR of all sources, which are 0 unless they are selected."""
        instruction = self._current.instruction
        flags = self._flags[lane]
        a, b, c = (
            _gated(values[lane], reads)
            for values, reads in zip(self.registers.values, self._reads, strict=True))
        y = instruction.predicates[1]
        z = instruction.predicates[2]
        m.d.comb += self._chosen[lane].eq(struct_value(
            Operands,
            a=(a | self._uniform[_A] | self.special.values[lane]
               | self._supplied("values", lane)),
            b=b | self._uniform[_B],
            c=c | self._uniform[_C],
            conditions=flags.condition,
            sources=Cat(
                self._source_x(m, lane), _predicate_of(flags, y), _predicate_of(flags, z)),
            predicates=flags.predicates))

    def _source_x(self, m: Module, lane: int) -> Signal:
        """S4: predicate x of a lane; for a unit's write its predicate, for a VOTE the verdict."""
        instruction = self._current.instruction
        x = Signal(name=f"x_{lane}")
        with m.If(self._current.write.is_present):
            m.d.comb += x.eq(self._supplied("flags", lane))
        with m.Elif(instruction.source_a == ValueSource.BALLOT):
            m.d.comb += x.eq(self._verdict)
        with m.Else():
            m.d.comb += x.eq(_predicate_of(self._flags[lane], instruction.predicates[0]))
        return x

    def _supplied(self, name: str, lane: int) -> Value:
        """S4: the data that a unit supplies for a lane; 0 if none does."""
        return reduce(or_, (
            _gated(Cat(getattr(port, name)[lane]), self._supplies[client])
            for client, port in self._clients.items()))

    def _pass_operands(self, m: Module) -> None:
        """S5: the operand registers of the lanes. In part 0 all lanes load theirs; in a later part
        the full lane loads those of the lane of that number in its group, which still holds
        them."""
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

    def _pass_stage(self, m: Module) -> None:
        """S5: the record of the beat, which passes beside the lanes.

        A beat in parts loads its record with its second part, and holds it until the second part
        of the next beat: so the record is in S7 when the lanes store the results of a part. The
        record is valid in the cycle after the last part. In that cycle S4 has the first part of the
        next beat; after the last beat it is empty, since LaneTimer (rtl.issue.select) keeps the
        lanes busy for one cycle more than there are parts."""
        current = self._current
        owner = current.owner
        destination = current.instruction.destination
        stage = self.beat.payload
        parts_are_through = Signal()
        m.d.sync += parts_are_through.eq(self._part.valid & self._beat_is_done)
        m.d.sync += self.beat.valid.eq(parts_are_through | (self._is_valid & ~current.quarter))
        with m.If(~current.quarter | (self._part.number == 1)):
            only_reads = current.gather.is_present | current.collects
            m.d.sync += stage.record.eq(struct_value(
                beat_record(self._params),
                writes=current.write.is_present | ~only_reads,
                collects=current.collects,
                place=struct_value(
                    beat_place(self._params), warp=owner.warp, beat=self._beat),
                sequence=owner.sequence,
                threads=current.threads,
                row=owner.first_row + destination.register,
                destination=destination,
                is_supplied=current.write.is_present))
        for lane, conditions in enumerate(stage.supplied_conditions):
            m.d.sync += conditions.eq(self._supplied("conditions", lane))

    def _deliver(self, m: Module) -> None:
        """S5: the data of a gather, to its client."""
        current = self._current
        gather = current.gather
        names_a = current.instruction.registers[_A] != RZ
        counts = names_a & ~self.registers.blank[_A]
        for value, register in zip(self.registers.values[_A], self._register_a, strict=True):
            m.d.sync += register.eq(_gated(value, counts))
        for client in GATHERING:
            gathered = self._clients[client].gathered
            m.d.sync += gathered.valid.eq(
                self._is_valid & gather.is_present & (gather.client == client))
            m.d.sync += gathered.payload.index.eq(gather.index)
            m.d.sync += gathered.payload.beat.eq(self._beat)
            for lane, values in enumerate(gathered.payload.values):
                operands = self.operands[lane]
                m.d.comb += values.eq(Cat(self._register_a[lane], operands.b, operands.c))


def _gated(value: Any, holds: Value) -> Value:
    """The value, or 0."""
    return value & holds.replicate(len(value))


def _predicate_of(flags: Any, operand: Any) -> Value:
    """The value of a PredicateOperand for a thread with these ThreadFlags."""
    return Cat(flags.predicates, 1).bit_select(operand.number, 1) ^ operand.negated
