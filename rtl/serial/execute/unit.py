"""The execute unit of a serial machine."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component
from rtl.execute.common import CommonDecoder
from rtl.execute.decode import LaneDecoder
from rtl.execute.decode_stage import PASSING_NAMES, PASSING_WORD
from rtl.execute.instruction import LaneInstruction, OperandSource, ValueSource
from rtl.execute.ports import unit_ports
from rtl.execute.predicates import ThreadFlags
from rtl.execute.stages import Operands
from rtl.execute.vote import verdict_of
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.fields import FIELDS
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ
from rtl.layouts import (
    GATHER_REGISTERS,
    GATHERING,
    InstructionKind,
    LaneClient,
    completion,
    error_event,
    gathered_beat,
    is_kind,
    issued,
    lane_write,
    operands_read,
    operation_beat,
    register_write,
    reported,
)
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.structs import common_fields, struct_value
from rtl.word import field_of
from rtl.words import Words

from ..lane import SerialLanes
from .bits import WordBits, word_write
from .fields import A, B, C, RegisterFields
from .guard import ThreadGuard, predicate_of
from .registers import SerialRegisters
from .results import ThreadResults
from .rows import IN_ROWS, ThreadRows
from .sequencer import Sequencer, ThreadStep
from .special import SpecialBits
from .stages import (
    Accepted,
    ErrorStatus,
    FlagDestinations,
    GuardedInstruction,
    InstructionClass,
    ScannedMasks,
    SuppliedFlags,
    special_read,
    thread_place,
)

__all__ = ["SerialExecuteUnit"]

_ALL_THREADS = (1 << WARP_THREADS) - 1


def _any_of(values: Iterable[Any]) -> Any:
    """All values joined by OR."""
    return reduce(or_, values)


def _gated(condition: Any, value: Any) -> Any:
    """A value's bits while the condition holds, else 0."""
    value = Value.cast(value)
    return value & condition.replicate(len(value))


def _at_most_one(*conditions: Any) -> Value:
    """Whether no two of the conditions hold."""
    bits = Cat(conditions)
    return ~(bits & (bits - 1)).any()


class SerialExecuteUnit(Component):
    """Registers, predicates, CC and one lane, for a machine with one instruction in flight.

    The sequencer defines the phases. In COMPUTE, a thread's operands are read one after another
    over one bus, the lane computes, and the results are written, before the next thread begins::

        step           request       arrives, by the bus
        FIRST          register c
        C              register b    c
        B              register a    b, and the thread's predicates and CC
        A                            a, of a register, a special register or a scan
        OPERANDS                     the lane starts
        WRITE                        register, predicates and CC are written

    Two kinds of instructions are scanned first, a thread in two cycles (SCAN) or five (COLLECT):
    those of other units, which are dispatched when the guards of all threads are known; and those
    of the lanes that read a value which is the same in all threads, such as a vote or a clock.

    Operations of units belong to the instruction that was dispatched last: they use its warp,
    sequence number and scoreboards. The flow unit's value is written for the threads that execute
    that instruction, regardless of the operation's own threads.

    A refused instruction goes from START to COMPLETE, with its error. A constant that is missing is
    an error of lane instructions only if a thread executes them, and those then write nothing;
    other instructions are dispatched with the fault.

    Members
    -------
    thread : In(Event of thread_index)
        As for ExecuteUnit; also clears the thread's predicates and CC. Follows a launch for all of
        its threads.
    collecting : Out(1)
        An instruction or operation is in progress: no other may be issued or accepted.
    passed, gathered : Out(Event of scoreboard_event), Out(Event of operands_read)
        When everything is written, or read.
    memory, conversion, barrier : In(LaneData), In(LaneData), In(LaneWriteData)
        Beats come in order, with gaps between them.

    All others are as ExecuteUnit describes them.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(unit_ports(params))
        self.sequencer = Sequencer()
        self.common = CommonDecoder()
        self.guard = ThreadGuard()
        self.fields = RegisterFields()
        self.registers = SerialRegisters(params)
        self.rows = ThreadRows(params)
        self.special = SpecialBits(params)
        self.lanes = SerialLanes(params)
        self.results = ThreadResults()
        self.active = WordBits(params.warps)
        self.first_rows = Words(params.row_bits, params.warps)
        self._suppliers: dict[LaneClient, Any] = {
            LaneClient.MEMORY: self.memory,
            LaneClient.CONVERSION: self.conversion,
            LaneClient.BARRIER: self.barrier,
        }
        """The ports of units that write."""

        self._issued: Any = Signal(issued(params), name="issued")
        """The instruction in flight."""
        self._decoded: Any = Signal(LaneInstruction, name="decoded")
        """What the lane does for it."""
        self._gather: Any = Signal.like(self.gather.payload, name="gather")
        self._write: Any = Signal.like(self.write.payload, name="write")
        self._phase: Any = self.sequencer.phase

        self._place: Any = Signal(thread_place(params), name="place")
        """The thread that is processed, and the warp of the instruction."""
        self._read: Any = Signal(special_read(params), name="read")
        """The same, and the special register that the instruction reads, if any."""
        self._class: Any = Signal(InstructionClass, name="instruction_class")
        self._lacks_constant = Signal(name="lacks_constant")
        """Its constant is missing, and the error is reported."""

        self._is_executing = Signal(name="is_executing")
        """The thread executes the instruction, by guard, active threads, and quad."""
        self._writes_thread = Signal(name="writes_thread")
        """What the instruction or operation writes, the thread takes."""
        self._lane_flags: Any = Signal(ThreadFlags, name="lane_flags")
        """The thread's predicates and CC, for the lane."""
        self._test_holds = Signal(name="test_holds")

        self._scans_thread = Signal(name="scans_thread")
        """The last cycle of a thread in SCAN and COLLECT."""
        self._scanned: Any = Signal(ScannedMasks, name="scanned")
        self._some_execute = Signal(name="some_execute")
        """A thread executes the instruction, as far as scanned."""
        self._some_true = Signal(name="some_true")
        """Of those, one has a true predicate operand."""
        self._some_false = Signal(name="some_false")

        self._number = Signal(8, name="number")
        """The register that is read or written."""
        self._reads_register = Signal(name="reads_register")
        """A register other than RZ was requested in the cycle before."""
        self._uniform_arrives = Signal(name="uniform_arrives")
        """A value that is the same in all threads, and was scanned, arrives as operand a."""
        self._needs_scan = Signal(name="needs_scan")
        """An instruction of the lanes is scanned first."""
        self._bus = Signal(32, name="bus")
        self._at_a = Signal(name="at_a")
        """The operand a arrives; likewise below."""
        self._at_b = Signal(name="at_b")
        self._at_c = Signal(name="at_c")
        self._operands: Any = Signal(
            data.ArrayLayout(32, GATHER_REGISTERS), name="operands")
        """Operands a, b and c. A holds a value to write, too."""

        self._supplies = {
            client: Signal(name=f"supplies_{client.name.lower()}") for client in self._suppliers}
        """The unit whose write is in progress."""
        self._supplied: Any = Signal(SuppliedFlags, name="supplied")
        """The predicate and CC that it writes."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sequencer = self.sequencer
        m.submodules.common = self.common
        m.submodules.guard = self.guard
        m.submodules.fields = self.fields
        m.submodules.registers = self.registers
        m.submodules.rows = self.rows
        m.submodules.special = self.special
        m.submodules.lanes = self.lanes
        m.submodules.results = self.results
        m.submodules.active = self.active
        m.submodules.first_rows = self.first_rows

        # What arrives.
        self._accept(m)
        self._decode(m)
        self._classify(m)
        self._launch(m)

        # A thread: whether it executes, its operands, results.
        self._evaluate_guard(m)
        self._select_threads(m)
        self._select_register(m)
        self._select_special(m)
        self._drive_bus(m)
        self._hold_operands(m)
        self._hold_flags(m)
        self._compute(m)
        self._write_thread(m)

        # All threads.
        self._scan(m)
        self._vote(m)

        # What others are sent.
        self._connect_suppliers(m)
        self._connect_gatherers(m)
        self._dispatch(m)
        self._report_errors(m)
        self._offer_flow_value(m)
        self._report_writes(m)
        self._complete(m)
        return m

    def _accept(self, m: Module) -> None:
        """An instruction, unless it has ended when it issues, or an operation."""
        phase = self._phase
        m.d.comb += self.collecting.eq(~phase.idle & ~phase.offer_write)

        has_ended = is_kind(
            self.instruction.payload.kind, lambda rule: rule.silent and rule.unit is None)
        m.d.comb += self.sequencer.accepted.eq(struct_value(
            Accepted, instruction=self.instruction.valid & ~has_ended,
            gather=self.gather.valid, write=self.write.valid))
        for event, kept in (
            (self.instruction, self._issued),
            (self.gather, self._gather),
            (self.write, self._write),
        ):
            with m.If(event.valid):
                m.d.sync += kept.eq(event.payload)

    def _decode(self, m: Module) -> None:
        """What the lane does. Operands of instructions of other units pass it unchanged."""
        m.submodules.decoder = decoder = LaneDecoder(self._params.floats)
        m.submodules.passing = passing = LaneDecoder(self._params.floats, PASSING_NAMES)
        word = self._issued.word
        m.d.comb += decoder.word.eq(word)
        m.d.comb += passing.word.eq(PASSING_WORD)
        with m.If(self._phase.decode):
            with m.If(self._class.is_lane_instruction):
                m.d.sync += self._decoded.eq(decoder.instruction)
            with m.Else():
                m.d.sync += self._decoded.eq(passing.instruction)
        m.d.comb += self.common.word.eq(word)
        m.d.comb += self.common.x.eq(self._decoded.predicates[0])
        m.d.comb += self.fields.word.eq(word)
        m.d.comb += self.fields.is_lane_instruction.eq(self._class.is_lane_instruction)

    def _classify(self, m: Module) -> None:
        """The instruction's kind, which decides its phases."""
        kind = self._issued.kind
        m.d.comb += self._class.eq(struct_value(
            InstructionClass,
            is_refused=kind == InstructionKind.REFUSED,
            is_lane_instruction=kind == InstructionKind.LANES,
            needs_scan=self._needs_scan,
            is_collected=is_kind(kind, lambda rule: rule.collected),
            is_flow_read=kind == InstructionKind.FLOW_READ))
        m.d.comb += self.sequencer.instruction_class.eq(self._class)
        m.d.comb += self._lacks_constant.eq(
            self._issued.constant_missing
            & reported(self.report_mask, WarpError.INVALID_CONST_ADDR))

    def _launch(self, m: Module) -> None:
        """A new warp: its registers, its CTA's coordinates, and each thread's."""
        launch = self.launch
        self.first_rows.write(m, launch.valid, launch.payload.warp, launch.payload.first_row)
        connect(m, flipped(self.clear_rows), self.registers.clear)
        connect(m, flipped(self.thread), self.rows.launched)
        connect(m, flipped(launch), self.special.launch)
        m.d.comb += self.special.grid.eq(self.grid)

    def _evaluate_guard(self, m: Module) -> None:
        """The thread's predicates and CC, and their values after the instruction."""
        guard = self.guard
        m.d.comb += self._place.eq(struct_value(
            thread_place(self._params), thread=self.sequencer.thread, warp=self._issued.warp))
        m.d.comb += self.rows.read.eq(self._read)
        m.d.comb += guard.instruction.eq(struct_value(
            GuardedInstruction, word=self._issued.word,
            is_lane_instruction=self._class.is_lane_instruction,
            common=self.common.instruction))
        m.d.comb += guard.flags.eq(self.rows.flags.before)

    def _select_threads(self, m: Module) -> None:
        """Whether the thread executes the instruction, and writes."""
        active = self.active
        thread = self.sequencer.thread
        result = self.flow_result.payload
        m.d.comb += active.write.valid.eq(self.flow_result.valid)
        m.d.comb += active.write.payload.eq(struct_value(
            word_write(self._params.warps), number=result.warp, word=result.active))
        m.d.comb += active.read.eq(self._place)
        flow_failed = Signal()
        with m.If(self.flow_result.valid):
            m.d.sync += flow_failed.eq(result.error != WarpError.NONE)

        in_quad = self._decoded.quad.bit_select(thread[:2], 1)
        m.d.comb += self._is_executing.eq(self.guard.guard_holds & active.bit & in_quad)
        is_named_by_unit = self._write.client != LaneClient.FLOW
        with m.If(self._phase.write & is_named_by_unit):
            m.d.comb += self._writes_thread.eq(pick(self._write.operation.threads, thread))
        with m.Elif(self._class.is_lane_instruction):
            m.d.comb += self._writes_thread.eq(self._is_executing & ~self._lacks_constant)
        with m.Else():
            m.d.comb += self._writes_thread.eq(self._is_executing & ~flow_failed)

    def _select_register(self, m: Module) -> None:
        """The register that is read or written.

        a is read again in step A: in COLLECT it is compared with operand a, which by then is the
        first thread's."""
        phase = self._phase
        decoded = self._decoded
        reads_operand = {
            A: decoded.source_a == ValueSource.REGISTER,
            B: decoded.source_b == OperandSource.REGISTER,
            C: decoded.source_c == OperandSource.REGISTER,
        }
        operand_of_step = {
            ThreadStep.FIRST: C,
            ThreadStep.C: B,
            ThreadStep.B: A,
            ThreadStep.A: A,
        }
        number = self._number
        is_register = Signal()
        with m.Switch(self.sequencer.step):
            for step, operand in operand_of_step.items():
                with m.Case(step):
                    with m.If(phase.gather):
                        m.d.comb += number.eq(self._gather.operation.registers[operand])
                    with m.Else():
                        m.d.comb += number.eq(self.fields.numbers[operand])
                    m.d.comb += is_register.eq(
                        (phase.compute & reads_operand[operand])
                        | phase.gather | phase.collect)
            with m.Default():
                m.d.comb += number.eq(field_of(self._issued.word, FIELDS["Rd"]))
        with m.If(phase.write):
            m.d.comb += number.eq(self._write.operation.register)
        first_row = self.first_rows.read(m, self._issued.warp)
        m.d.comb += self.registers.row.eq(first_row + number)
        m.d.comb += self.registers.thread.eq(self.sequencer.thread)
        m.d.sync += self._reads_register.eq(is_register & (number != RZ))

    def _select_special(self, m: Module) -> None:
        """Special registers: a thread's are in its row; those that are the same in all threads are
        scanned first."""
        special = self.special
        number = self._decoded.special
        is_special = self._decoded.source_a == ValueSource.SPECIAL
        in_rows = Signal()
        m.d.comb += in_rows.eq(is_special & number.matches(*map(int, IN_ROWS)))
        m.d.comb += self._read.eq(struct_value(
            special_read(self._params), place=self._place, number=number))
        m.d.comb += self.rows.enable.eq(
            self._phase.compute & in_rows & (self.sequencer.step == ThreadStep.A))

        m.d.comb += special.read.eq(self._read)
        m.d.comb += special.pc.eq(self._issued.pc)
        m.d.comb += special.status.eq(struct_value(
            ErrorStatus, of_warp=self.status.status, of_all=self.status.all_status))
        m.d.comb += special.advance.eq(self._scans_thread)

        is_uniform = (self._decoded.source_a != ValueSource.REGISTER) & ~in_rows
        m.d.comb += self._needs_scan.eq(is_uniform | self._lacks_constant)
        m.d.comb += self.sequencer.can_start.eq(special.aligned | ~is_special)
        m.d.comb += self._uniform_arrives.eq(self._phase.compute & self._at_a & is_uniform)

    def _drive_bus(self, m: Module) -> None:
        """The word that arrives. At most one of its sources is not 0."""
        phase = self._phase
        decoded = self._decoded
        step = self.sequencer.step
        m.d.comb += self._at_a.eq(step == ThreadStep.A)
        m.d.comb += self._at_b.eq(step == ThreadStep.B)
        m.d.comb += self._at_c.eq(step == ThreadStep.C)

        b_is_other = self._at_b & (decoded.source_b != OperandSource.REGISTER)
        c_is_other = self._at_c & (decoded.source_c != OperandSource.REGISTER)
        is_immediate = ((decoded.source_b == OperandSource.IMMEDIATE)
                        | (decoded.source_c == OperandSource.IMMEDIATE))
        is_from_word = phase.start | (phase.compute & (b_is_other | c_is_other))
        from_word = Mux(is_immediate, decoded.immediate, self._issued.constant)
        from_units = _any_of(
            _gated(self._supplies[client], port.values) for client, port in self._suppliers.items())
        m.d.sync += Assert(
            _at_most_one(
                self._reads_register, is_from_word, self._uniform_arrives, self.rows.enable,
                phase.await_flow, *self._supplies.values()),
            "two words on the operand bus")
        m.d.comb += self._bus.eq(
            _gated(self._reads_register, self.registers.read)
            | _gated(is_from_word, from_word)
            | _gated(self._uniform_arrives, self._scanned.same)
            | self.rows.value
            | _gated(phase.await_flow, self.flow_result.payload.value)
            | from_units)

    def _hold_operands(self, m: Module) -> None:
        """Operands, from the bus. COLLECT reads the operands of the first thread that executes.

        a also holds the constant of an instruction for a unit, and the value to write: the value of
        the flow unit, or a unit's."""
        phase = self._phase
        collects = phase.collect & self._is_executing & ~self._some_execute
        reads_operands = phase.compute | phase.gather | collects
        result = self.flow_result
        has_flow_result = result.valid & (result.payload.warp == self._issued.warp)
        m.d.comb += self.sequencer.has_flow_result.eq(has_flow_result)
        flow_value_arrives = phase.await_flow & has_flow_result
        supply_arrives = self._at_c & _any_of(self._supplies.values())
        value_arrives = phase.start | flow_value_arrives | supply_arrives
        arrives = {
            A: value_arrives | (self._at_a & reads_operands),
            B: self._at_b & reads_operands,
            C: self._at_c & reads_operands,
        }
        for operand, is_on_bus in arrives.items():
            with m.If(is_on_bus):
                m.d.sync += self._operands[operand].eq(self._bus)

        with m.If(supply_arrives):
            m.d.sync += self._supplied.eq(struct_value(
                SuppliedFlags,
                p=_any_of(
                    _gated(self._supplies[client], port.flags)
                    for client, port in self._suppliers.items()),
                conditions=_any_of(
                    _gated(self._supplies[client], port.conditions)
                    for client, port in self._suppliers.items())))

    def _hold_flags(self, m: Module) -> None:
        """Predicates, CC and the outcome of the test of CC. They leave block RAM late in a cycle:
        the lane takes them from registers."""
        with m.If(self.sequencer.step == ThreadStep.B):
            m.d.sync += self._lane_flags.eq(self.rows.flags.before)
            m.d.sync += self._test_holds.eq(self.guard.test_holds)

    def _compute(self, m: Module) -> None:
        """The lane."""
        lanes = self.lanes
        control = lanes.instruction.control
        flags = self._lane_flags
        sources = Signal(3)
        m.d.comb += lanes.instruction.eq(self._decoded)
        m.d.comb += control.condition.eq(self._test_holds.replicate(len(control.condition)))
        m.d.comb += lanes.executes.eq(self._writes_thread)
        m.d.comb += lanes.part.valid.eq(
            self._phase.compute & (self.sequencer.step == ThreadStep.OPERANDS))
        m.d.comb += sources.eq(
            Cat(predicate_of(flags, operand) for operand in self._decoded.predicates))
        with m.If(self._decoded.source_a == ValueSource.BALLOT):
            m.d.comb += sources[0].eq(
                verdict_of(self._decoded.vote, self._some_true, self._some_false))
        m.d.comb += lanes.operands[0].eq(struct_value(
            Operands, a=self._operands[A], b=self._operands[B], c=self._operands[C],
            conditions=flags.condition, sources=sources, predicates=flags.predicates))

    def _write_thread(self, m: Module) -> None:
        """Register, predicates and CC of the thread, by the lane or a unit."""
        sequencer = self.sequencer
        registers = self.registers
        results = self.results
        rows = self.rows
        of_lane = self.lanes.results[0]
        of_unit = self._write.operation
        m.d.comb += sequencer.write_is_blocked.eq(rows.is_blocked)
        m.d.comb += results.executes.eq(self._writes_thread)
        m.d.comb += results.result.eq(of_lane)
        connect(m, rows.flags, results.flags)
        with m.If(self._phase.write):
            m.d.comb += results.destinations.eq(struct_value(
                FlagDestinations, p=of_unit.predicate, q=self._decoded.destination.q,
                writes_cc=of_unit.conditional))
            m.d.comb += common_fields(results.result, self._supplied)
        with m.Else():
            m.d.comb += common_fields(results.destinations, self._decoded.destination)
        m.d.comb += registers.result.eq(
            Mux(self._phase.write, self._operands[A], of_lane.value))
        m.d.comb += registers.may_write_next.eq(sequencer.may_write_next)
        m.d.comb += registers.write.eq(
            sequencer.writes & self._writes_thread & (self.written.payload.register != RZ))
        m.d.comb += rows.write.eq(sequencer.writes)

    def _scan(self, m: Module) -> None:
        """Collects a bit of each thread: of instructions of the lanes a bit of the value that is
        the same in all threads; of instructions that are collected, whether the thread executes
        and its register a has the value of the first that does; of others 1."""
        m.d.comb += self._scans_thread.eq(
            self.sequencer.thread_ends & (self._phase.scan | self._phase.collect))
        scanned_bit = Signal()
        with m.If(self._class.is_lane_instruction), m.Switch(self._decoded.source_a):
            with m.Case(ValueSource.BALLOT):
                m.d.comb += scanned_bit.eq(self._is_executing & self.guard.predicate_holds)
            with m.Case(ValueSource.NEXT_PC):
                m.d.comb += scanned_bit.eq(self.special.next_pc)
            with m.Default():
                m.d.comb += scanned_bit.eq(self.special.bit)
        with m.Elif(self._class.is_collected):
            m.d.comb += scanned_bit.eq(
                self._is_executing & (self.registers.read == self._operands[A]))
        with m.Else():
            m.d.comb += scanned_bit.eq(1)
        scanned = self._scanned
        guard = self.guard
        with m.If(self._scans_thread):
            m.d.sync += scanned.eq(struct_value(
                ScannedMasks,
                active=Cat(scanned.active[1:], self.active.bit),
                guard=Cat(scanned.guard[1:], guard.guard_holds),
                predicate=Cat(scanned.predicate[1:], guard.predicate_holds),
                same=Cat(scanned.same[1:], scanned_bit)))

    def _vote(self, m: Module) -> None:
        """Whether a thread executes the instruction, and of those that do, whether the predicate
        operand of one is true, and that of one false."""
        with m.If(self._phase.start):
            m.d.sync += self._some_execute.eq(0)
            m.d.sync += self._some_true.eq(0)
            m.d.sync += self._some_false.eq(0)
        with m.If(self._scans_thread & self._is_executing):
            m.d.sync += self._some_execute.eq(1)
            with m.If(self.guard.predicate_holds):
                m.d.sync += self._some_true.eq(1)
            with m.Else():
                m.d.sync += self._some_false.eq(1)

    def _connect_suppliers(self, m: Module) -> None:
        """Requests a beat of the unit that writes."""
        for client, port in self._suppliers.items():
            supplies = self._supplies[client]
            m.d.comb += supplies.eq(self._phase.write & (self._write.client == client))
            m.d.comb += port.wanted.valid.eq(
                supplies & (self.sequencer.step == ThreadStep.FIRST))
            m.d.comb += port.wanted.payload.eq(struct_value(
                operation_beat(self._params), index=self._write.operation.index,
                beat=self.sequencer.thread))

    def _connect_gatherers(self, m: Module) -> None:
        """Sends a beat of registers to the unit that gathers."""
        sends = self._phase.gather & self.sequencer.thread_ends
        for client in GATHERING:
            beat = self._suppliers[client].gathered
            m.d.comb += beat.valid.eq(sends & (self._gather.client == client))
            m.d.comb += beat.payload.eq(struct_value(
                gathered_beat(self._params), index=self._gather.operation.index,
                beat=self.sequencer.thread, values=self._operands))

    def _dispatch(self, m: Module) -> None:
        """Dispatches an instruction to its unit, with the masks that the scan has collected."""
        dispatched = self.dispatch.payload
        m.d.comb += self.dispatch.valid.eq(
            self._phase.dispatch & ~self._class.is_lane_instruction)
        m.d.comb += common_fields(dispatched, self._issued)
        m.d.comb += common_fields(dispatched, self._scanned)
        m.d.comb += dispatched.operands.eq(Cat(self._operands[A], self._operands[B]))
        with m.If(self.common.instruction.misaligned):
            m.d.comb += dispatched.fault.eq(WarpError.MISALIGNED_IMMC_ADDR)
        with m.Elif(self._lacks_constant):
            m.d.comb += dispatched.fault.eq(WarpError.INVALID_CONST_ADDR)

    def _report_errors(self, m: Module) -> None:
        """A refused instruction's error, or a missing constant that a thread reads."""
        issued_error = self._issued.error
        is_refused = self._class.is_refused
        lanes_execute = (
            self._phase.dispatch & self._class.is_lane_instruction & self._some_execute)
        refuses = self._phase.start & is_refused & reported(self.report_mask, issued_error)
        error = Signal(WarpError, name="error_code")
        m.d.sync += self.error.valid.eq(refuses | (lanes_execute & self._lacks_constant))
        m.d.sync += error.eq(Mux(is_refused, issued_error, WarpError.INVALID_CONST_ADDR))
        m.d.comb += self.error.payload.eq(struct_value(
            error_event(self._params), warp=self._issued.warp, pc=self._issued.pc, error=error))

        reads_and_clears = ((self._decoded.source_a == ValueSource.SPECIAL)
                            & (self._decoded.special == SpecialRegister.WARPERRORSTATUSCLEAR))
        m.d.comb += self.status.warp.eq(self._issued.warp)
        m.d.comb += self.status.clear.eq(lanes_execute & reads_and_clears)

    def _offer_flow_value(self, m: Module) -> None:
        """The flow unit's value, which issue accepts as the only write of its instruction."""
        instruction = self._issued
        m.d.comb += self.write_flow.valid.eq(self._phase.offer_write)
        m.d.comb += self.sequencer.write_accepted.eq(self.write_flow.ready)
        m.d.comb += self.write_flow.payload.eq(struct_value(
            register_write(self._params), warp=instruction.warp, sequence=instruction.sequence,
            index=0, last=1, barrier=instruction.write_barrier,
            register=field_of(instruction.word, FIELDS["Rd"]), threads=_ALL_THREADS,
            predicate=PT, conditional=0))

    def _report_writes(self, m: Module) -> None:
        """What a thread writes, for the retirement interface."""
        results = self.results
        has_no_destination = self._phase.compute & self.fields.has_no_destination
        m.d.comb += self.written.valid.eq(self.sequencer.writes)
        m.d.comb += self.written.payload.eq(struct_value(
            lane_write(self._params),
            warp=self._issued.warp,
            sequence=self._issued.sequence,
            beat=self.sequencer.thread,
            lanes=self._writes_thread,
            register=self._number | has_no_destination.replicate(8),    # RZ is all ones
            values=self.registers.written,
            predicates=results.written,
            flags=results.flags.after.predicates,
            conditional=results.destinations.writes_cc,
            conditions=results.result.conditions))

    def _complete(self, m: Module) -> None:
        """Releases scoreboards. A unit that reads registers releases the read barrier itself; one
        that traps is passed when it is dispatched."""
        instruction = self._issued
        phase = self._phase
        is_trap = instruction.kind == InstructionKind.TRAP
        releases_read_barrier = (
            self._class.is_lane_instruction | self._class.is_refused | is_trap)
        m.d.comb += self.sequencer.is_last_write.eq(self._write.operation.last)
        m.d.comb += self.completion.valid.eq(phase.complete)
        m.d.comb += self.completion.payload.eq(struct_value(
            completion(self._params), warp=instruction.warp, sequence=instruction.sequence,
            write_barrier=instruction.write_barrier,
            read_barrier=Mux(releases_read_barrier, instruction.read_barrier, NO_BARRIER)))

        passed = self.passed.payload
        m.d.comb += self.passed.valid.eq(self.completion.valid | (phase.dispatch & is_trap))
        m.d.comb += common_fields(passed, self.completion.payload)
        m.d.comb += passed.completes.eq(1)

        gathered = self.gathered
        m.d.comb += gathered.valid.eq(
            phase.gather & self.sequencer.phase_ends & self._gather.operation.last)
        m.d.comb += gathered.payload.eq(struct_value(
            operands_read(self._params), warp=instruction.warp,
            barrier=instruction.read_barrier))
