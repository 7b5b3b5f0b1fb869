"""The execute unit, joined."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component, pass_on
from rtl.isa.syntax import PT
from rtl.layouts import completion, scoreboard_event
from rtl.params import SmParams
from rtl.words import Words

from .clients import SUPPLYING
from .collector import Collector
from .decode_stage import DecodeStage
from .dispatch import DispatchStage
from .flow_read import FlowReads
from .lanes import LANE_CYCLES, Lanes
from .masks import ActiveMasks
from .operands import OperandStage
from .ports import unit_ports
from .predicates import PredicateFile
from .registers import RegisterFile
from .special import SpecialValues
from .writeback import WriteBack

__all__ = ["ExecuteUnit"]

_COMPLETION_CYCLES = LANE_CYCLES + 2
"""From S3 to S8, for one beat."""


class ExecuteUnit(Component):
    """Registers, predicates, CC and lanes: S2 to S8 of every instruction.

    An instruction comes in S2, which issue selected in S0. What the lanes compute is written at the end of S8, beat by
    beat. What another unit executes is dispatched at the end of S3, or when its registers are collected and nothing
    else is dispatched.

    Members
    -------
    instruction : In(Event of issued)
    gather, write : In(Event of offered_operation)
        Operations, never in the cycle of an instruction; one of each at a time, which pass the lanes together. Nothing
        for the lanes comes before all beats of what was before have.
    grid : In(GridConfiguration)
    launch : In(valid, payload: warp_launch)
        Clears the warp's predicates and CC.
    clear_rows : In(stream of rows of the register file)
        Registers of a warp that is being launched become 0.
    thread : In(valid, payload: thread_index)
    flow_result_valid, flow_result : In(1), In(flow_result)
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    memory, conversion, barrier : see lane_data_port
        For units that gather and write.
    dispatch : Out(valid, payload: dispatched)
    collecting : Out(1)
        From S4 of an instruction whose registers are collected until it is dispatched: no other one may come.
    completion : Out(completion)
        Of instructions of the lanes, of writes that complete one, and of refused ones, in S8 of the last beat, or
        when that would be.
    passed, gathered : Out(Event of scoreboard_event), Out(Event of operands_read)
        Of the same, and of TRAP; of the last gather of an instruction. So early that what is selected four cycles later
        finds everything read and written.
    error : Out(error_event)
        At the end of S3.
    written : Out(lane_write)
        In S8.
    status_warp, warp_status, all_status, clear_status : Out, In(32), In(32), Out(1)
        The trap unit's, for S2R; see TrapUnit.
    write_flow : Out(stream of register_write)
        Writes of what is read from the flow unit.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(unit_ports(params))
        self.registers = RegisterFile(params)
        self.predicates = PredicateFile(params)
        self.masks = ActiveMasks(params)
        self.special = SpecialValues(params)
        self.decode_stage = DecodeStage(params)
        self.dispatch_stage = DispatchStage(params)
        self.operands = OperandStage(params)
        self.collector = Collector(params)
        self.lanes = Lanes(params)
        self.write_back = WriteBack(params)
        self.flow_reads = FlowReads(params)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decode_stage = decode = self.decode_stage
        m.submodules.registers = registers = self.registers
        m.submodules.predicates = predicates = self.predicates
        m.submodules.masks = masks = self.masks
        m.submodules.special = special = self.special
        m.submodules.dispatch_stage = leaving = self.dispatch_stage
        m.submodules.operands = operands = self.operands
        m.submodules.lanes = lanes = self.lanes
        m.submodules.write_back = after = self.write_back
        self._launch(m)

        # S2: what it is.
        arriving, warp = decode.decoded, decode.decoded.warp
        self.join(m, decode, "instruction", "gather", "write")

        # S3: who executes it.
        flow = self.flow_result
        connect(m, flipped(self.clear_rows), registers.clear)
        pass_on(m, predicates, leaving, "predicates", "conditions", "live")
        m.d.comb += [
            leaving.arriving.eq(arriving), leaving.report_mask.eq(self.report_mask), masks.warp.eq(warp),
            masks.write.eq(self.flow_result_valid), masks.write_warp.eq(flow.warp),
            masks.write_active.eq(flow.active), leaving.active.eq(masks.active), predicates.warp.eq(warp),
            special.number.eq(arriving.lanes.special), special.warp.eq(warp), leaving.special.eq(special.uniform),
            self.status_warp.eq(warp), special.warp_status.eq(self.warp_status),
            special.all_status.eq(self.all_status), self.clear_status.eq(leaving.clears_status)]
        m.d.sync += self.error.eq(leaving.error)
        self._dispatch(m)

        # S3 and S4: beats, and what they read.
        m.d.comb += [
            operands.starts.eq(leaving.starts), operands.slot.eq(leaving.slot), registers.rows.eq(operands.rows),
            registers.beat.eq(operands.place.beat), operands.registers.eq(registers.values),
            operands.blank.eq(registers.blank),
            predicates.starts.eq(leaving.starts), predicates.place.eq(operands.place),
            operands.flags.eq(predicates.flags),
            special.place.eq(operands.place), special.own.eq(operands.own),
            operands.special.eq(special.values)]
        self.join(m, operands, *(client.name.lower() for client in SUPPLYING))

        # S5 to S7: the lanes.
        m.d.comb += [lanes.instruction.eq(operands.instruction), lanes.operands.eq(operands.operands),
                     lanes.part.eq(operands.part)]

        # S8: results.
        m.d.comb += [
            after.valid.eq(operands.valid), after.stage.eq(operands.stage),
            after.supplied_conditions.eq(operands.supplied_conditions), after.results.eq(lanes.results),
            lanes.executes.eq(after.executes), registers.row.eq(after.row),
            registers.write.eq(after.write), predicates.write.eq(after.write), after.after.eq(predicates.after),
            self.written.eq(after.report)]
        self._complete(m)
        return m

    def _launch(self, m: Module) -> None:
        """What a new warp brings: its place in the register file, predicates and CC that are 0."""
        leaving, arriving, launch = self.dispatch_stage, self.decode_stage.decoded, self.launch.payload
        m.submodules.rows = rows = Words(self._params.row_bits, self._params.warps)
        read, of_write, write = rows.read_port(domain="comb"), rows.read_port(domain="comb"), rows.write_port()
        m.d.comb += [
            read.addr.eq(arriving.warp), leaving.first_row.eq(read.data),
            of_write.addr.eq(arriving.write.operation.warp), leaving.write_first_row.eq(of_write.data),
            write.addr.eq(launch.warp),
            write.en.eq(self.launch.valid), write.data.eq(launch.first_row),
            self.predicates.launch.eq(self.launch), self.special.launch.eq(self.launch),
            self.special.grid.eq(self.grid), self.special.thread.eq(self.thread)]

    def _dispatch(self, m: Module) -> None:
        """To other units; and what the flow unit reads comes back."""
        m.submodules.collector = collector = self.collector
        m.submodules.flow_reads = reads = self.flow_reads
        leaving, operands = self.dispatch_stage, self.operands
        m.d.comb += [
            collector.start.eq(leaving.collects), collector.record.eq(leaving.record),
            collector.valid.eq(operands.valid), collector.stage.eq(operands.stage),
            collector.operands.eq(operands.operands), collector.taken.eq(~leaving.direct),
            self.collecting.eq(collector.busy)]
        m.d.sync += self.dispatch.valid.eq(leaving.direct | collector.ready)
        with m.If(leaving.direct | collector.ready):
            m.d.sync += self.dispatch.payload.eq(
                Mux(leaving.direct, leaving.record.as_value(), collector.complete.as_value()))
        m.d.comb += [
            reads.dispatch.eq(self.dispatch), reads.launch.eq(self.launch),
            reads.result_valid.eq(self.flow_result_valid), reads.result.eq(self.flow_result),
            reads.warp.eq(self.decode_stage.decoded.write.operation.warp), leaving.flow_value.eq(reads.value)]
        connect(m, reads.write, flipped(self.write_flow))

    def _complete(self, m: Module) -> None:
        """Everything takes the time of the last beat, so that no two are complete in one cycle; what passes the full
        lanes only that of its last part, when nothing else may be complete."""
        leaving, ends = self.dispatch_stage, self.operands.ends
        stages = _COMPLETION_CYCLES + self._params.beats - 1
        width = completion(self._params).size
        line, later, completed = Signal(width * stages), Signal(width), Signal(completion(self._params))
        passed = Signal(scoreboard_event(self._params))
        m.d.comb += [completed.eq(Mux(ends, later, leaving.completed.as_value())), passed.completes.eq(1)]
        pass_on(m, completed, passed, "warp", "write_barrier", "read_barrier")
        with m.If(leaving.slot.quarter):
            m.d.sync += later.eq(leaving.completed)
            m.d.comb += completed.valid.eq(0)
        m.d.sync += [
            line.eq(Cat(line[width:], completed)),
            Assert(~(ends & leaving.passed), "something else is complete with what passed the full lanes")]
        m.d.comb += self.completion.eq(line[:width])

        # Who waits for it may be selected in time for its operands: of a register that a unit writes the first beat
        # counts, of predicates and CC the last one. What is told early goes between the others.
        write = leaving.arriving.write.operation
        soon = leaving.arriving.writes & (write.predicate == PT) & ~write.conditional
        for name, payload, valid, early in (
                ("passed", passed, (leaving.passed & ~leaving.slot.quarter) | ends, soon),
                ("gathered", leaving.gathered.payload, leaving.gathered.valid, Const(0))):
            told, size = getattr(self, name), len(payload.as_value())
            line = Signal((size + 1) * max(self._params.beats - 2, 0), name=f"{name}_line")
            last, goes = Cat(line, payload, valid)[:size + 1], Signal(name=f"{name}_soon")
            m.d.comb += [
                goes.eq(valid & early & ~last[-1]), told.valid.eq(last[-1] | goes),
                told.payload.eq(Mux(goes, payload.as_value(), last[:size]))]
            m.d.sync += line.eq(Cat(line, payload, valid & ~goes)[size + 1:])
