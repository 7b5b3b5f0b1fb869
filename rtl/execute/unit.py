"""The execute unit: S2 to S8."""

from amaranth.hdl import Assert, Module
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component
from rtl.isa.syntax import PT
from rtl.layouts import delayed, operands_read, scoreboard_event
from rtl.params import SmParams
from rtl.structs import common_fields
from rtl.words import Words

from .collector import Collector
from .completion import CompletionLine, ReleaseLine
from .decode_stage import DecodeStage
from .dispatch import DispatchStage
from .flow_read import FlowReads
from .lanes import Lanes
from .masks import ActiveMasks
from .operands import OperandStage
from .ports import unit_ports
from .predicates import PredicateFile
from .registers import RegisterFile
from .special import SpecialValues
from .writeback import WriteBack

__all__ = ["ExecuteUnit"]


class ExecuteUnit(Component):
    """Registers, predicates, CC and lanes: S2 to S8 of every instruction.

    An instruction that issue selected in S0 arrives in S2. The results of the lanes are written at
    the end of S8, beat by beat. An instruction for another unit is decided in S3, and on port
    ``dispatch`` one cycle later (S4); one whose registers are collected is dispatched when they are
    there, in a cycle in which no other instruction is: the instruction in S3 has priority.

    A stage is named by its first beat: beat b of the same instruction is in it b cycles later.
    There is no backpressure in the pipeline. Issue schedules so that the lanes, the collector and
    the completion line are free; asserts check it. ::

        instruction   gather, write
             |             |
             v             v
        S2  DecodeStage
             |
             v
        S3  DispatchStage <-- ActiveMasks, PredicateFile, SpecialValues
             |    |    |
             |    |    +--> CompletionLine, ReleaseLine
             |    +-------> dispatch <---------------- Collector
             v                                             ^
        S4  OperandStage <--> RegisterFile, units          |
             |    |                                        |
             |    +--- beats, beside the lanes ---+--------+
             v                                    |
        S5 to S7  Lanes                           |
             |                                    |
             v                                    |
        S8  WriteBack <---------------------------+
             |
             +--> RegisterFile, PredicateFile

    Members
    -------
    instruction : In(Event of issued)
    gather, write : In(Event of offered_operation)
        Operations of other units, in S2; never in the cycle of an instruction. A gather and a write
        in the same cycle pass the lanes together. Issue arbitrates (rtl.issue.operations):
        operations alternate with instructions; clients are served round robin. What uses the lanes
        next reaches S3 no earlier than the last beat (or part) of what uses them now reaches S4.
    grid : In(GridConfiguration)
    launch : In(Event of warp_launch)
        A warp is launched: its predicates and CC are cleared, its place in the register file and in
        the grid is stored.
    clear_rows : In(stream of rows of the register file)
        A row, which belongs to a warp that is being launched, becomes 0.
    thread : In(Event of thread_index)
    flow_result : In(Event of flow_result)
    report_mask : In(32)
        Bit n: warp errors of code n are reported.
    memory, conversion, barrier : In(LaneData), In(LaneData), In(LaneWriteData)
        Data of the units' gathers and writes.
    dispatch : Out(Event of dispatched)
        An instruction for another unit: in S4, or after its registers are collected.
    collecting : Out(1)
        The registers of an instruction are collected: from its S4 on, until it is on
        ``dispatch``. No other such instruction may arrive in S3 meanwhile.
    completion : Out(Event of completion)
        In S8 of the last beat, of instructions of the lanes and of the last write of another unit's
        instruction; refused ones complete in the same time, though they have no beats. An
        instruction of a quarter of the rate completes ``beats - 1`` cycles after its last write.
        Instructions with an error complete, too.
    passed : Out(Event of scoreboard_event)
        The releases of the same instructions, and of TRAP. They precede the completion: what issue
        selects at the earliest, four cycles later, reads what was written.
    gathered : Out(Event of operands_read)
        The last gather of an instruction has read its registers; as early as ``passed``.
    error : Out(Event of error_event)
        In S4, for reported errors of refused instructions, and of constants of instructions of the
        lanes.
    written : Out(Event of lane_write)
        In S8 of each beat.
    status : Out(WarpStatusPort)
        Status of warps, from the trap unit; in S3 of an S2R.
    write_flow : Out(stream of register_write)
        Writes of FLOW_READ instructions, one of the clients of the lanes.
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
        self.completions = CompletionLine(params)
        self.passed_line = ReleaseLine(params, scoreboard_event(params))
        self.gathered_line = ReleaseLine(params, operands_read(params))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.decode_stage = self.decode_stage
        m.submodules.registers = self.registers
        m.submodules.predicates = self.predicates
        m.submodules.masks = self.masks
        m.submodules.special = self.special
        m.submodules.dispatch_stage = self.dispatch_stage
        m.submodules.operands = self.operands
        m.submodules.lanes = self.lanes
        m.submodules.write_back = self.write_back
        m.submodules.collector = self.collector
        m.submodules.flow_reads = self.flow_reads
        m.submodules.completions = self.completions
        m.submodules.passed_line = self.passed_line
        m.submodules.gathered_line = self.gathered_line
        self._connect_decode(m)
        self._connect_warp_state(m)
        self._connect_first_rows(m)
        self._connect_operands(m)
        self._connect_lanes(m)
        self._connect_write_back(m)
        self._connect_dispatch(m)
        self._connect_flow_reads(m)
        self._complete(m)
        self._release(m)
        return m

    def _connect_decode(self, m: Module) -> None:
        """S2: an instruction or operations are decoded."""
        m.d.sync += Assert(
            ~(self.instruction.valid & (self.gather.valid | self.write.valid)),
            "an operation in the cycle of an instruction")
        connect(m, flipped(self.instruction), self.decode_stage.instruction)
        connect(m, flipped(self.gather), self.decode_stage.gather)
        connect(m, flipped(self.write), self.decode_stage.write)

    def _connect_warp_state(self, m: Module) -> None:
        """S3: the warp's state, which determines the threads that execute the instruction."""
        decoded = self.decode_stage.decoded
        dispatch = self.dispatch_stage
        masks = self.masks
        predicates = self.predicates
        special = self.special
        connect(m, dispatch.active, masks.read)
        connect(m, dispatch.flags, predicates.warp_read)
        connect(m, dispatch.special, special.uniform)
        connect(m, flipped(self.flow_result), masks.result, self.flow_reads.result)
        connect(m, flipped(self.launch), predicates.launch, special.launch, self.flow_reads.launch)
        m.d.comb += special.grid.eq(self.grid)
        connect(m, flipped(self.thread), special.thread)
        m.d.comb += special.warp_status.eq(self.status.status)
        m.d.comb += special.all_status.eq(self.status.all_status)
        m.d.comb += self.status.warp.eq(decoded.warp)

        m.d.comb += dispatch.decoded.eq(decoded)
        connect(m, self.decode_stage.decoded_gather, dispatch.gather)
        connect(m, self.decode_stage.decoded_write, dispatch.write)
        m.d.comb += dispatch.report_mask.eq(self.report_mask)
        m.d.comb += self.status.clear.eq(dispatch.clears_status)
        connect(m, delayed(m, dispatch.error), flipped(self.error))

    def _connect_first_rows(self, m: Module) -> None:
        """S3: the first row of each warp in the register file, stored at its launch."""
        decoded = self.decode_stage.decoded
        dispatch = self.dispatch_stage
        launch = self.launch.payload
        m.submodules.rows = rows = Words(self._params.row_bits, self._params.warps)
        m.d.comb += dispatch.first_row.eq(rows.read(m, decoded.warp))
        m.d.comb += dispatch.write_first_row.eq(rows.read(m, dispatch.write.payload.operation.warp))
        rows.write(m, self.launch.valid, launch.warp, launch.first_row)

    def _connect_operands(self, m: Module) -> None:
        """S3 and S4: the beats and their operands."""
        operands = self.operands
        connect(m, flipped(self.clear_rows), self.registers.clear)
        connect(m, self.dispatch_stage.slot, operands.slot)
        connect(m, operands.registers, self.registers.read)
        connect(m, operands.flags, self.predicates.read)
        connect(m, operands.special, self.special.read)
        connect(m, flipped(self.memory), operands.memory)
        connect(m, flipped(self.conversion), operands.conversion)
        connect(m, flipped(self.barrier), operands.barrier)

    def _connect_lanes(self, m: Module) -> None:
        """S5 to S7: the lanes."""
        operands = self.operands
        lanes = self.lanes
        m.d.comb += lanes.instruction.eq(operands.instruction)
        m.d.comb += lanes.operands.eq(operands.operands)
        m.d.comb += lanes.part.eq(operands.part)
        m.d.comb += lanes.executes.eq(self.write_back.executes)

    def _connect_write_back(self, m: Module) -> None:
        """S8: the results."""
        write_back = self.write_back
        connect(m, self.operands.beat, write_back.beat)
        m.d.comb += write_back.results.eq(self.lanes.results)
        connect(m, write_back.registers, self.registers.write)
        connect(m, write_back.flags, self.predicates.write)
        connect(m, write_back.report, flipped(self.written))

    def _connect_dispatch(self, m: Module) -> None:
        """Dispatch to other units. An instruction in S3 has priority over one whose registers are
        collected, which waits."""
        dispatch = self.dispatch_stage
        collector = self.collector
        operands = self.operands
        connect(m, dispatch.collected, collector.instruction)
        connect(m, operands.beat, collector.beat)
        m.d.comb += collector.operands.eq(operands.operands)
        m.d.comb += collector.complete.ready.eq(~dispatch.direct.valid)
        m.d.comb += self.collecting.eq(collector.busy)

        m.d.sync += self.dispatch.valid.eq(dispatch.direct.valid | collector.complete.valid)
        with m.If(dispatch.direct.valid):
            m.d.sync += self.dispatch.payload.eq(dispatch.direct.payload)
        with m.Elif(collector.complete.valid):
            m.d.sync += self.dispatch.payload.eq(collector.complete.payload)

    def _connect_flow_reads(self, m: Module) -> None:
        """The results of FLOW_READ instructions are written by operations of the lanes."""
        reads = self.flow_reads
        connect(m, self.dispatch, reads.dispatch)
        connect(m, self.dispatch_stage.flow_value, reads.value)
        connect(m, reads.write, flipped(self.write_flow))

    def _complete(self, m: Module) -> None:
        """S3 to S8: completions, in a delay line beside the lanes."""
        completions = self.completions
        connect(m, self.dispatch_stage.completed, completions.completed)
        m.d.comb += completions.is_quarter.eq(self.dispatch_stage.slot.payload.quarter)
        m.d.comb += completions.has_last_part.eq(self.operands.has_last_part)
        connect(m, completions.leaving, flipped(self.completion))

    def _release(self, m: Module) -> None:
        """From S3 on: releases for issue, as early as ReleaseLine allows."""
        dispatch = self.dispatch_stage
        has_last_part = self.operands.has_last_part
        completed = self.completions.entering
        passed = self.passed_line.entering
        is_quarter = dispatch.slot.payload.quarter
        m.d.comb += passed.valid.eq((dispatch.passed & ~is_quarter) | has_last_part)
        m.d.comb += common_fields(passed.payload, completed.payload)
        m.d.comb += passed.payload.completes.eq(1)
        m.d.sync += Assert(
            ~(has_last_part & dispatch.passed),
            "something else passes with the last part of what passed the full lanes")

        write = dispatch.write.payload.operation
        writes_register_only = (write.predicate == PT) & ~write.conditional
        m.d.comb += self.passed_line.is_early.eq(dispatch.write.valid & writes_register_only)
        connect(m, self.passed_line.leaving, flipped(self.passed))

        connect(m, dispatch.gathered, self.gathered_line.entering)
        connect(m, self.gathered_line.leaving, flipped(self.gathered))
