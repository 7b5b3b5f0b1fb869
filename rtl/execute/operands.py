"""S3 to S5: an instruction's beats, and what each of them reads."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.isa.condition import Flags
from rtl.isa.special_registers import OF_THREADS
from rtl.isa.syntax import RZ
from rtl.layouts import GATHER_REGISTERS, GATHERING, LaneClient
from rtl.one_hot import chosen_of
from rtl.params import SmParams

from .clients import SUPPLYING, lane_data_port
from .instruction import LaneInstruction, OperandSource, ValueSource
from .predicates import ThreadFlags
from .slots import beat_place, beat_stage, lane_slot
from .stages import LanePart, Operands
from .vote import verdict_of

__all__ = ["OperandStage"]


class OperandStage(Component):
    """Reads registers, predicates and CC a beat a cycle, and chooses the operands.

    Members
    -------
    starts, slot : In(1), In(lane_slot)
        The first beat, in S3.
    place, rows : Out(beat_place), Out
        What is read in this cycle, of the beat in S3.
    flags : In(ThreadFlags for each lane)
        Predicates and CC of that beat, in the same cycle.
    ends : Out(1)
        S4: the last part of an instruction that passes the full lanes only.
    registers, blank : In(32 bits for each lane, for each operand), In(1 bit for each operand)
        Registers, in the next cycle. Those of a blank row are 0.
    own, special : Out(1 bit for each of OF_THREADS), In(32 bits for each lane)
        A special register that differs from thread to thread, of the beat in S4; 0 for all others.
    memory, conversion, barrier : see lane_data_port
        The units that gather, and that supply what is written.
    valid, stage, instruction, operands, part : Out
        S5: for the lanes, Operands for each, and what goes beside them. Of a ``part`` what goes beside them comes so
        much later that it meets the results of the beat.
    supplied_conditions : Out(Flags for each lane)
        S5: CC from a unit.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params

        def each(shape: object) -> data.ArrayLayout:
            return data.ArrayLayout(shape, params.lanes)    # pyright: ignore[reportArgumentType]

        super().__init__({
            "starts": In(1), "slot": In(lane_slot(params)), "place": Out(beat_place(params)),
            "rows": Out(data.ArrayLayout(params.row_bits, GATHER_REGISTERS)), "flags": In(each(ThreadFlags)),
            "registers": In(data.ArrayLayout(each(32), GATHER_REGISTERS)), "blank": In(GATHER_REGISTERS),
            "own": Out(len(OF_THREADS)), "special": In(each(32)), "ends": Out(1), "part": Out(LanePart),
            **{client.name.lower(): Out(lane_data_port(client, params)) for client in SUPPLYING},
            "valid": Out(1), "stage": Out(beat_stage(params)), "instruction": Out(LaneInstruction),
            "operands": Out(each(Operands)), "supplied_conditions": Out(each(Flags))})
        self._first = [Signal(32, name=f"first_{lane}") for lane in range(params.lanes)]
        self._chosen: list[Any] = [Signal(Operands, name=f"chosen_{lane}") for lane in range(params.lanes)]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, last_beat, parts = self._params.lanes, self._params.beats - 1, self._params.parts
        slot, current = self.slot, Signal(lane_slot(self._params))
        going, beat = Signal(), Signal.like(self.place.beat)
        part: Any = Signal(LanePart)
        flags = Signal.like(self.flags)

        # S3: the first beat, or another one of what is in S4, or another part of that.
        goes_on, whole = Signal(), Signal()
        m.d.comb += [
            part.valid.eq(going & current.quarter), whole.eq(~part.valid | (part.number == parts - 1)),
            self.ends.eq(part.valid & whole & (beat == last_beat)), goes_on.eq(going & ~(whole & (beat == last_beat))),
            self.place.warp.eq(Mux(self.starts, slot.warp, current.warp)),
            self.place.beat.eq(Mux(self.starts, 0, beat + whole)),
            self.rows.eq(Mux(self.starts, slot.rows.as_value(), current.rows.as_value()))]
        m.d.sync += [going.eq(self.starts | goes_on), beat.eq(self.place.beat), flags.eq(self.flags)]
        with m.If(self.starts):
            m.d.sync += current.eq(slot)
        with m.Elif(goes_on & whole):
            m.d.sync += current.threads.eq(current.threads >> lanes)
        clients = {client: getattr(self, client.name.lower()) for client in SUPPLYING}
        for client, port in clients.items():
            wants, still_wants = slot.supplied & (slot.client == client), current.supplied & (current.client == client)
            m.d.comb += [
                port.wanted.valid.eq(Mux(self.starts, wants, goes_on & still_wants)),
                port.wanted.index.eq(Mux(self.starts, slot.index, current.index)), port.wanted.beat.eq(self.place.beat)]

        # S4: what was read.
        self._choose(m, current, clients)
        m.d.sync += [self.instruction.eq(current.instruction), self.part.eq(part)]
        with m.If(part.valid):
            m.d.sync += part.number.eq(Mux(whole, 0, part.number + 1))
        for thread, chosen in zip(flags, self._chosen, strict=True):
            m.d.comb += [chosen.predicates.eq(thread.predicates), chosen.conditions.eq(thread.condition)]
        # A full lane takes the operands of the others, in which they stay, behind its own.
        of_part = Signal(parts)
        m.d.comb += of_part.eq(Cat(part.number == number for number in range(parts)))
        for number, (chosen, operands) in enumerate(zip(self._chosen, self.operands, strict=True)):
            if number % parts:
                m.d.sync += operands.eq(chosen)
            else:
                sources = [chosen, *(self.operands[number + place] for place in range(1, parts))]
                m.d.sync += operands.eq(chosen_of(of_part, [source.as_value() for source in sources]))

        # A beat in parts is behind the results of the last one; until then what goes beside it stays.
        stage, instruction, passed = self.stage, current.instruction, Signal()
        m.d.sync += [passed.eq(part.valid & whole), self.valid.eq(passed | (going & ~current.quarter))]
        with m.If(~current.quarter | (part.number == 1)):
            m.d.sync += [
                stage.writing.eq(current.supplied | ~(current.gather | current.collects)),
                stage.collects.eq(current.collects), stage.place.warp.eq(current.warp), stage.serial.eq(current.serial),
                stage.place.beat.eq(beat), stage.threads.eq(current.threads),
                stage.row.eq(current.first_row + instruction.destination), stage.register.eq(instruction.destination),
                stage.p.eq(instruction.p), stage.q.eq(instruction.q), stage.writes_cc.eq(instruction.writes_cc),
                stage.supplied.eq(current.supplied)]

        # S5: what was gathered. Operand a may be what is written beside it.
        for client in GATHERING:
            gathered = clients[client].gathered
            m.d.sync += [
                gathered.valid.eq(going & current.gather & (current.reader == client)),
                gathered.index.eq(current.read_index), gathered.beat.eq(beat)]
            for lane, first, values in zip(self.operands, self._first, gathered.values, strict=True):
                m.d.comb += values.eq(Cat(first, lane.b, lane.c))
        return m

    def _choose(self, m: Module, current: data.View, clients: dict[LaneClient, Any]) -> None:
        """Operands of the beat in S4."""
        instruction, lanes = current.instruction, self._params.lanes
        named, wanted, reads = (Signal(GATHER_REGISTERS, name=name) for name in ("named", "wanted", "reads"))
        same = [Signal(32, name=f"same_{operand}") for operand in range(GATHER_REGISTERS)]
        m.d.comb += [
            named.eq(Cat(number != RZ for number in instruction.registers)), self.own.eq(current.own),
            wanted[0].eq(named[0] & (instruction.source_a == ValueSource.REGISTER) & ~current.supplied),
            reads.eq(wanted & ~self.blank)]
        supplies = {client: Signal(name=f"supplies_{client.name.lower()}") for client in clients}
        m.d.comb += [chosen.eq(current.supplied & (current.client == client)) for client, chosen in supplies.items()]

        def gated(value: Any, holds: Any) -> Any:
            return value & holds.replicate(len(value))

        def supplied(name: str, lane: int) -> Any:
            """What a unit supplies for a lane; 0 if none does."""
            return reduce(or_, (gated(Cat(getattr(port, name)[lane]), supplies[client])
                                for client, port in clients.items()))

        # What is the same in all lanes, and 0 where it is not wanted; so each lane adds its register.
        votes, verdict = instruction.source_a == ValueSource.BALLOT, Signal()
        m.d.comb += verdict.eq(verdict_of(instruction.vote, current.agrees, current.objects))
        uniform = (instruction.source_a != ValueSource.REGISTER) | current.supplied
        m.d.comb += same[0].eq(gated(current.uniform, uniform))
        for operand, source in ((1, instruction.source_b), (2, instruction.source_c)):
            m.d.comb += [
                wanted[operand].eq(named[operand] & (source == OperandSource.REGISTER)),
                same[operand].eq(gated(current.constant, source == OperandSource.CONSTANT)
                                 | gated(instruction.immediate, source == OperandSource.IMMEDIATE))]
        for lane in range(lanes):
            registers, chosen = [values[lane] for values in self.registers], self._chosen[lane]
            words = [gated(word, wanted) | other for word, wanted, other in zip(registers, reads, same, strict=True)]
            held = Cat(self._chosen[lane].predicates, 1)
            x, y, z = (held.bit_select(read.number, 1) ^ read.negated for read in instruction.predicates)
            m.d.comb += [
                chosen.a.eq(words[0] | self.special[lane] | supplied("values", lane)),
                chosen.b.eq(words[1]), chosen.c.eq(words[2]),
                chosen.sources.eq(Cat(Mux(current.supplied, supplied("flags", lane), Mux(votes, verdict, x)),
                                      y, z))]
            m.d.sync += [self._first[lane].eq(gated(registers[0], named[0] & ~self.blank[0])),
                         self.supplied_conditions[lane].eq(supplied("conditions", lane))]
