"""S2 to S4: an instruction's beats, and what each of them reads."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.isa.syntax import RZ
from rtl.layouts import GATHER_REGISTERS, GATHERING, LaneClient
from rtl.params import SmParams

from .clients import SUPPLYING, lane_data_port
from .instruction import LaneInstruction, OperandSource, ValueSource
from .predicates import ThreadFlags
from .slots import beat_place, beat_stage, lane_slot
from .stages import Operands

__all__ = ["OperandStage"]

_FLAG_BITS = Flags.as_shape().size


class OperandStage(Component):
    """Reads registers, predicates and CC a beat a cycle, and chooses the operands.

    Members
    -------
    starts, slot : In(1), In(lane_slot)
        The first beat, in S2.
    place, rows : Out(beat_place), Out
        What is read in this cycle, of the beat in S2.
    flags : In(ThreadFlags for each lane)
        Predicates and CC of that beat, in the same cycle.
    registers, blank : In(32 bits for each lane, for each operand), In(1 bit for each operand)
        Registers, in the next cycle. Those of a blank row are 0.
    special_number, special : Out(8), In(32 bits for each lane)
        A special register that differs from thread to thread, of the beat in S3.
    memory, conversion, barrier : see lane_data_port
        The units that gather, and that supply what is written.
    valid, stage, instruction, operands : Out
        S4: for the lanes, Operands for each, and what goes beside them.
    supplied_conditions : Out(Flags for each lane)
        S4: CC from a unit.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params

        def each(shape: object) -> data.ArrayLayout:
            return data.ArrayLayout(shape, params.lanes)    # pyright: ignore[reportArgumentType]

        super().__init__({
            "starts": In(1), "slot": In(lane_slot(params)), "place": Out(beat_place(params)),
            "rows": Out(data.ArrayLayout(params.row_bits, GATHER_REGISTERS)), "flags": In(each(ThreadFlags)),
            "registers": In(data.ArrayLayout(each(32), GATHER_REGISTERS)), "blank": In(GATHER_REGISTERS),
            "special_number": Out(8), "special": In(each(32)),
            **{client.name.lower(): Out(lane_data_port(client, params)) for client in SUPPLYING},
            "valid": Out(1), "stage": Out(beat_stage(params)), "instruction": Out(LaneInstruction),
            "operands": Out(each(Operands)), "supplied_conditions": Out(each(Flags))})
        self._first = [Signal(32, name=f"first_{lane}") for lane in range(params.lanes)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, last_beat = self._params.lanes, self._params.beats - 1
        slot, current = self.slot, Signal(lane_slot(self._params))
        going, beat = Signal(), Signal.like(self.place.beat)
        flags = Signal.like(self.flags)

        # S2: the first beat, or another one of what is in S3.
        goes_on, ends = Signal(), Signal()
        m.d.comb += [
            ends.eq(beat == last_beat), goes_on.eq(going & ~ends),
            self.place.warp.eq(Mux(self.starts, slot.warp, current.warp)),
            self.place.beat.eq(Mux(self.starts, 0, beat + 1)),
            self.rows.eq(Mux(self.starts, slot.rows.as_value(), current.rows.as_value()))]
        m.d.sync += [going.eq(self.starts | goes_on), beat.eq(self.place.beat), flags.eq(self.flags)]
        with m.If(self.starts):
            m.d.sync += current.eq(slot)
        with m.Elif(goes_on):
            m.d.sync += current.threads.eq(current.threads >> lanes)
            m.d.sync += [source.eq(source >> lanes) for source in current.sources]
        clients = {client: getattr(self, client.name.lower()) for client in SUPPLYING}
        for client, port in clients.items():
            wants, still_wants = slot.supplied & (slot.client == client), current.supplied & (current.client == client)
            m.d.comb += [
                port.wanted.valid.eq(Mux(self.starts, wants, goes_on & still_wants)),
                port.wanted.index.eq(Mux(self.starts, slot.index, current.index)), port.wanted.beat.eq(self.place.beat)]

        # S3: what was read.
        self._choose(m, current, clients)
        m.d.sync += [self.valid.eq(going), self.instruction.eq(current.instruction)]
        for thread, operands in zip(flags, self.operands, strict=True):
            m.d.sync += [operands.predicates.eq(thread.predicates), operands.conditions.eq(thread.condition)]
        stage, instruction = self.stage, current.instruction
        m.d.sync += [
            stage.writing.eq(current.supplied | ~(current.gather | current.collects)),
            stage.collects.eq(current.collects), stage.place.warp.eq(current.warp), stage.serial.eq(current.serial),
            stage.place.beat.eq(beat),
            stage.threads.eq(current.threads), stage.row.eq(current.first_row + instruction.destination),
            stage.register.eq(instruction.destination), stage.p.eq(instruction.p), stage.q.eq(instruction.q),
            stage.writes_cc.eq(instruction.writes_cc), stage.supplied.eq(current.supplied)]

        # S4: what was gathered. Operand a may be what is written beside it.
        for client in GATHERING:
            gathered = clients[client].gathered
            m.d.sync += [
                gathered.valid.eq(going & current.gather & (current.reader == client)),
                gathered.index.eq(current.read_index), gathered.beat.eq(beat)]
            for lane, first, values in zip(self.operands, self._first, gathered.values, strict=True):
                m.d.comb += values.eq(Cat(first, lane.b, lane.c))
        return m

    def _choose(self, m: Module, current: data.View, clients: dict[LaneClient, Any]) -> None:
        """Operands of the beat in S3."""
        instruction, lanes = current.instruction, self._params.lanes
        present = Signal(GATHER_REGISTERS)
        m.d.comb += [present.eq(Cat(number != RZ for number in instruction.registers) & ~self.blank),
                     self.special_number.eq(instruction.special)]
        is_register, is_special = Signal(), Signal()
        m.d.comb += [
            is_register.eq((instruction.source_a == ValueSource.REGISTER) & ~current.supplied),
            is_special.eq((instruction.source_a == ValueSource.SPECIAL) & ~current.supplied)]
        supplies = {client: Signal(name=f"supplies_{client.name.lower()}") for client in clients}
        m.d.comb += [chosen.eq(current.supplied & (current.client == client)) for client, chosen in supplies.items()]

        def supplied(name: str, lane: int, width: int) -> Any:
            """What a unit supplies for a lane; 0 if none does."""
            return reduce(or_, (Cat(getattr(port, name)[lane]) & supplies[client].replicate(width)
                                for client, port in clients.items()))

        registers = [[Signal(32, name=f"register{operand}_{lane}") for lane in range(lanes)]
                     for operand in range(GATHER_REGISTERS)]
        for operand, values in enumerate(registers):
            m.d.comb += [value.eq(Mux(present[operand], self.registers[operand][lane], 0))
                         for lane, value in enumerate(values)]
        m.d.sync += [first.eq(value) for first, value in zip(self._first, registers[0], strict=True)]
        for lane in range(lanes):
            own = current.uniform & (~is_register).replicate(32)
            special = self.special[lane] & is_special.replicate(32)
            m.d.sync += self.operands[lane].a.eq(Mux(is_register, registers[0][lane],
                                            own | special | supplied("values", lane, 32)))
            x, y, z = (source[lane] for source in current.sources)
            m.d.sync += [
                self.operands[lane].sources.eq(Cat(Mux(current.supplied, supplied("flags", lane, 1), x), y, z)),
                self.supplied_conditions[lane].eq(supplied("conditions", lane, _FLAG_BITS))]
        for operand, source, values in ((1, instruction.source_b, [lane.b for lane in self.operands]),
                                        (2, instruction.source_c, [lane.c for lane in self.operands])):
            with m.Switch(source):
                with m.Case(OperandSource.REGISTER):
                    m.d.sync += [value.eq(read) for value, read in zip(values, registers[operand], strict=True)]
                with m.Case(OperandSource.CONSTANT):
                    m.d.sync += [value.eq(current.constant) for value in values]
                with m.Default():
                    m.d.sync += [value.eq(instruction.immediate) for value in values]
