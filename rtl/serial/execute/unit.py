"""The execute unit of a serial machine."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import connect, flipped

from rtl.component import Component, pass_on
from rtl.execute.clients import SUPPLYING
from rtl.execute.common import CommonDecoder, tests_condition
from rtl.execute.condition import ConditionTable, condition_table
from rtl.execute.decode import LANE_FORMS, LaneDecoder
from rtl.execute.decode_stage import PASSING_NAMES, PASSING_WORD
from rtl.execute.float_control import FLOAT_OPERATIONS
from rtl.execute.instruction import LaneInstruction, OperandSource, ValueSource
from rtl.execute.ports import unit_ports
from rtl.execute.predicates import ThreadFlags
from rtl.execute.vote import verdict_of
from rtl.isa.condition import ConditionCode
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.fields import FIELDS
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ, Form, Register
from rtl.isa.table import BY_NAME
from rtl.layouts import GATHERING, InstructionKind, LaneClient, is_kind, issued, reported
from rtl.params import WARP_THREADS, SmParams
from rtl.pick import pick
from rtl.word import field_of, telling_patterns
from rtl.words import Words

from ..lane import SerialLanes
from .bits import WordBits
from .registers import SerialRegisters
from .results import ThreadResults
from .rows import IN_ROWS, ThreadRows
from .sequencer import Phase, Sequencer, Step
from .special import SpecialBits

__all__ = ["SerialExecuteUnit"]

_TEST = BY_NAME["CSET"][0].fields["test"]
"""Where instructions of the lanes have a test of CC."""
assert all(form.fields["test"] == _TEST for form in LANE_FORMS if "test" in form.fields)


class SerialExecuteUnit(Component):
    """Registers, predicates, CC and one lane, of a machine that has one instruction under way.

    An instruction has its threads in the lane one after the other; the next one begins when the results of the one
    before are written. What other units execute is dispatched when all threads' guards are known.

    Operations are of the instruction that was dispatched last: its warp, serial number and scoreboards are theirs.
    What is written by the flow unit is written for the threads that execute that instruction, whatever the operation
    says.

    Members
    -------
    thread : In(valid, payload: thread_index)
        As for ExecuteUnit; also clears the thread's predicates and CC. After a launch it comes for all threads.
    collecting : Out(1)
        Something is under way: no operation may come.
    passed, gathered : Out(Event of scoreboard_event), Out(Event of operands_read)
        When everything is written, or read.
    memory, conversion, barrier : see lane_data_port
        Beats come in order, with gaps between them.

    All others are as ExecuteUnit describes them.
    """

    def __init__(self, params: SmParams) -> None:
        self._params = params
        super().__init__(unit_ports(params))
        self.sequencer = Sequencer()
        self.registers = SerialRegisters(params)
        self.rows = ThreadRows(params)
        self.special = SpecialBits(params)
        self.lanes = SerialLanes(params)
        self.results = ThreadResults()
        self.active = WordBits(params.warps)
        self.first_rows = Words(params.row_bits, params.warps)
        # The instruction under way, and the operation of its unit.
        self._held: Any = Signal(issued(params), name="held")
        self._decoded: Any = Signal(LaneInstruction, name="decoded")
        self._gather: Any = Signal.like(self.gather.payload, name="gather")
        self._write: Any = Signal.like(self.write.payload, name="write")
        # Its kind, and the phase.
        self._computes, self._collects, self._missing = Signal(), Signal(), Signal()
        self._in = {phase: Signal(name=f"in_{phase.name.lower()}") for phase in Phase}
        # Of the thread.
        self._guard, self._predicate, self._executing, self._tested = Signal(), Signal(), Signal(), Signal()
        self._executes = Signal()
        # The register that is asked for, or written if it is one.
        self._number, self._writes_none = Signal(8), Signal()
        # Of all threads: somebody executes it; masks.
        self._found = Signal()
        self._same = Signal(WARP_THREADS)
        self._operands = {name: Signal(32, name=f"operand_{name}") for name in "abc"}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.sequencer = sequencer = self.sequencer
        held, state = self._held, self._in
        m.d.comb += [flag.eq(sequencer.phase == phase) for phase, flag in state.items()]
        m.d.comb += self.collecting.eq(~state[Phase.IDLE] & ~state[Phase.OFFER])

        # What comes, and has not ended when it issues.
        ended = is_kind(self.instruction.payload.kind, lambda rule: rule.silent and rule.unit is None)
        m.d.comb += [sequencer.instruction.eq(self.instruction.valid & ~ended), sequencer.gather.eq(self.gather.valid),
                     sequencer.write.eq(self.write.valid)]
        for event, register in ((self.instruction, held), (self.gather, self._gather), (self.write, self._write)):
            with m.If(event.valid):
                m.d.sync += register.eq(event.payload)
        self._decode(m)
        common = self._common(m)

        # What it reads, computes and writes.
        self._launch(m)
        self._threads(m, common)
        self._read(m)
        self._compute(m)
        self._write_back(m)

        # What leaves.
        self._tell(m, common)
        self._complete(m)
        return m

    def _decode(self, m: Module) -> None:
        """What the lane does; of others than its instructions it lets operands pass."""
        held, decoded, sequencer = self._held, self._decoded, self.sequencer
        m.submodules.decoder = decoder = LaneDecoder(self._params.floats)
        m.submodules.passing = passing = LaneDecoder(self._params.floats, PASSING_NAMES)
        m.d.comb += [
            self._computes.eq(held.kind == InstructionKind.LANES),
            self._collects.eq(is_kind(held.kind, lambda rule: rule.collected)),
            decoder.word.eq(held.word), passing.word.eq(PASSING_WORD)]
        with m.If(self._in[Phase.DECODE]):
            m.d.sync += decoded.eq(decoder.instruction)
            with m.If(~self._computes):
                m.d.sync += decoded.eq(passing.instruction)
        m.d.comb += [
            self._missing.eq(held.constant_missing & reported(self.report_mask, WarpError.INVALID_CONST_ADDR)),
            sequencer.refused.eq(held.kind == InstructionKind.REFUSED), sequencer.computes.eq(self._computes),
            sequencer.collects.eq(self._collects), sequencer.flow_read.eq(held.kind == InstructionKind.FLOW_READ)]

    def _common(self, m: Module) -> Any:
        """What it asks of each thread."""
        m.submodules.common = common = CommonDecoder()
        m.d.comb += [common.word.eq(self._held.word), common.x.eq(self._decoded.predicates[0])]
        return common.instruction

    def _launch(self, m: Module) -> None:
        """What a new warp brings."""
        m.submodules.rows = rows = self.rows
        m.submodules.special = special = self.special
        m.submodules.first_rows = self.first_rows
        launch = self.launch
        self.first_rows.write(m, launch.valid, launch.payload.warp, launch.payload.first_row)
        m.d.comb += [rows.event.eq(self.thread), special.launch.eq(launch), special.grid.eq(self.grid)]

    def _threads(self, m: Module, common: Any) -> None:
        """Who executes the instruction, thread by thread."""
        m.submodules.active = active = self.active
        held, rows, sequencer, flow = self._held, self.rows, self.sequencer, self.flow_result
        thread, word, code = sequencer.thread, held.word, Signal(ConditionCode, init=ConditionCode.T)
        table: Any = Signal(ConditionTable)
        m.d.comb += [
            active.write.eq(self.flow_result_valid), active.number.eq(flow.warp), active.word.eq(flow.active),
            active.read.eq(Cat(thread, held.warp)), rows.warp.eq(held.warp), rows.thread.eq(thread)]
        # A test of CC, of flow instructions and of the lanes' own.
        with m.If(self._computes):
            m.d.comb += code.eq(field_of(word, _TEST))
        with m.Elif(tests_condition(word)):
            m.d.comb += code.eq(field_of(word, FIELDS["test"]))
        m.d.comb += table.eq(condition_table(code.as_value()))
        predicates, condition = Cat(rows.flags.predicates, 1), rows.flags.condition
        third = Mux(table.reads_carry, condition.carry, condition.sign)
        tested = table.outcomes.bit_select(Cat(condition.zero, third, condition.overflow), 1)
        guard, predicate = (predicates.bit_select(operand.number, 1) ^ operand.negated
                            for operand in (common.guard, common.predicate))
        failed = Signal()
        with m.If(self.flow_result_valid):
            m.d.sync += failed.eq(flow.error != WarpError.NONE)
        named = pick(self._write.operation.threads, thread)
        m.d.comb += [
            self._tested.eq(tested), self._guard.eq(guard & (tested | self._computes)), self._predicate.eq(predicate),
            self._executing.eq(self._guard & active.bit & self._decoded.quad.bit_select(thread[:2], 1)),
            self._executes.eq(Mux(
                self._in[Phase.WRITE] & (self._write.client != LaneClient.FLOW), named,
                self._executing & Mux(self._computes, ~self._missing, ~failed)))]

    def _read(self, m: Module) -> None:
        """The operands, one after the other, by one bus."""
        m.submodules.registers = registers = self.registers
        connect(m, flipped(self.clear_rows), registers.clear)
        held, decoded, sequencer, special = self._held, self._decoded, self.sequencer, self.special
        phase, step, thread = self._in, sequencer.step, sequencer.thread
        a, b, c = self._operands.values()
        first_row = self.first_rows.read(m, held.warp)
        source_a, of_unit = decoded.source_a, self._write.operation

        # Which register.
        fields = self._fields(m)
        number, is_register, reads = self._number, Signal(), Signal()
        sources = (source_a == ValueSource.REGISTER, decoded.source_b == OperandSource.REGISTER,
                   decoded.source_c == OperandSource.REGISTER)
        with m.Switch(step):        # a twice: who collects it looks at it again
            for asked, operand in ((Step.FIRST, 2), (Step.C, 1), (Step.B, 0), (Step.A, 0)):
                with m.Case(asked):
                    m.d.comb += [
                        number.eq(Mux(phase[Phase.GATHER], self._gather.operation.registers[operand], fields[operand])),
                        is_register.eq((phase[Phase.COMPUTE] & sources[operand])
                                       | phase[Phase.GATHER] | phase[Phase.COLLECT])]
            with m.Default():
                m.d.comb += number.eq(field_of(held.word, FIELDS["Rd"]))
        with m.If(phase[Phase.WRITE]):
            m.d.comb += number.eq(of_unit.register)
        m.d.comb += [registers.row.eq(first_row + number), registers.thread.eq(thread)]
        m.d.sync += reads.eq(is_register & (number != RZ))

        # Special registers, and other values that are no register's.
        special_number, in_rows, uniform = decoded.special, Signal(), Signal()
        other = phase[Phase.COMPUTE] & (source_a != ValueSource.REGISTER)
        m.d.comb += [
            in_rows.eq((source_a == ValueSource.SPECIAL) & special_number.matches(*map(int, IN_ROWS))),
            uniform.eq((source_a != ValueSource.REGISTER) & ~in_rows),
            self.rows.number.eq(special_number), self.rows.gives.eq(other & in_rows & (step == Step.A)),
            special.number.eq(special_number), special.warp.eq(held.warp), special.index.eq(thread),
            special.pc.eq(held.pc), special.warp_status.eq(self.warp_status), special.all_status.eq(self.all_status),
            sequencer.looks.eq(uniform | self._missing),
            sequencer.ready.eq(special.aligned | (source_a != ValueSource.SPECIAL))]

        # The bus.
        at = {name: Signal(name=f"at_{name}") for name in "abc"}
        m.d.comb += [at[name].eq(step == when) for name, when in (("a", Step.A), ("b", Step.B), ("c", Step.C))]
        immediate = (decoded.source_b == OperandSource.IMMEDIATE) | (decoded.source_c == OperandSource.IMMEDIATE)
        bus, start, awaits = Signal(32), phase[Phase.START], phase[Phase.AWAIT]
        ports = {client: getattr(self, client.name.lower()) for client in SUPPLYING}
        supplies = {client: Signal(name=f"supplies_{client.name.lower()}") for client in SUPPLYING}
        m.d.comb += [chosen.eq(phase[Phase.WRITE] & (self._write.client == client))
                     for client, chosen in supplies.items()]
        not_register = start | (phase[Phase.COMPUTE] & ((at["c"] & ~sources[2]) | (at["b"] & ~sources[1])))
        m.d.comb += bus.eq(reduce(or_, (_if(condition, value) for condition, value in (
            (reads, registers.read), (not_register, Mux(immediate, decoded.immediate, held.constant)),
            (at["a"] & other & uniform, self._same), (Const(1, 1), self.rows.value),
            (awaits, self.flow_result.value),
            *((supplies[client], Value.cast(port.values)) for client, port in ports.items())))))
        collects = phase[Phase.COLLECT] & self._executing & ~self._found
        takes = phase[Phase.COMPUTE] | phase[Phase.GATHER] | collects
        result = self.flow_result_valid & (self.flow_result.warp == held.warp)
        m.d.comb += sequencer.result.eq(result)
        supplied = at["c"] & reduce(or_, supplies.values())
        with m.If(start | (at["a"] & takes) | supplied | (awaits & result)):
            m.d.sync += a.eq(bus)
        with m.If(at["b"] & takes):
            m.d.sync += b.eq(bus)
        with m.If(at["c"] & takes):
            m.d.sync += c.eq(bus)

        # Units.
        self._supplied_flag, self._supplied_conditions = Signal(), Signal(4)
        for client, port in ports.items():
            m.d.comb += [port.wanted.valid.eq(supplies[client] & (step == Step.FIRST)),
                         port.wanted.index.eq(of_unit.index), port.wanted.beat.eq(thread)]
        with m.If(supplied):
            m.d.sync += [
                self._supplied_flag.eq(reduce(or_, (_if(supplies[client], port.flags)
                                                    for client, port in ports.items()))),
                self._supplied_conditions.eq(reduce(or_, (_if(supplies[client], Value.cast(port.conditions))
                                                          for client, port in ports.items())))]
        for client in GATHERING:
            gathered = ports[client].gathered
            m.d.comb += [
                gathered.valid.eq(phase[Phase.GATHER] & sequencer.ends & (self._gather.client == client)),
                gathered.index.eq(self._gather.operation.index), gathered.beat.eq(thread),
                gathered["values"].eq(Cat(a, b, c))]

    def _fields(self, m: Module) -> list[Value]:
        """The fields of the word where registers a, b and c are; and whether one is written. A register that is no
        operand may be anything."""
        word, places = self._held.word, {}
        forms = [form for form in LANE_FORMS if form.name not in FLOAT_OPERATIONS]
        for index, name in enumerate("abc"):
            of_field: dict[str, list[Form]] = {}
            for form in forms:
                if isinstance(operand := form.operands.get(name), Register):
                    of_field.setdefault(operand.field, []).append(form)
            usual, *others = sorted(of_field, key=lambda field: -len(of_field[field]))
            places[index] = field_of(word, FIELDS[usual])
            for other in others:
                elsewhere = Signal(name=f"{name}_in_{other}")
                m.d.comb += elsewhere.eq(self._computes & word.matches(
                    *telling_patterns(of_field[other], of_field[usual])))
                places[index] = Mux(elsewhere, field_of(word, FIELDS[other]), places[index])
        without = [form for form in forms if not isinstance(form.operands.get("d"), Register)]
        m.d.comb += self._writes_none.eq(self._in[Phase.COMPUTE] & word.matches(
            *telling_patterns(without, [form for form in forms if form not in without])))
        return list(places.values())

    def _compute(self, m: Module) -> None:
        """The lane; what all threads say together."""
        m.submodules.lanes = lanes = self.lanes
        decoded, phase, sequencer = self._decoded, self._in, self.sequencer
        executing, operands = self._executing, lanes.operands[0]
        agrees, objects, shifts = Signal(), Signal(), Signal()
        m.d.comb += shifts.eq(sequencer.ends & (phase[Phase.LOOK] | phase[Phase.COLLECT]))
        same = Signal()
        with m.If(self._computes), m.Switch(decoded.source_a):
            with m.Case(ValueSource.BALLOT):
                m.d.comb += same.eq(executing & self._predicate)
            with m.Case(ValueSource.NEXT_PC):
                m.d.comb += same.eq(self.special.next_pc)
            with m.Default():
                m.d.comb += same.eq(self.special.bit)
        with m.Else():
            m.d.comb += same.eq(~self._collects | (executing & (self.registers.read == self._operands["a"])))
        m.d.comb += self.special.advance.eq(shifts)
        with m.If(phase[Phase.START]):
            m.d.sync += [self._found.eq(0), agrees.eq(0), objects.eq(0)]
        with m.If(shifts):
            m.d.sync += self._same.eq(Cat(self._same[1:], same))
            with m.If(executing):
                m.d.sync += [self._found.eq(1), agrees.eq(agrees | self._predicate),
                             objects.eq(objects | ~self._predicate)]
        self._shifts = shifts

        # What block RAM has read comes late: the lane has it from a register, and so whether the test of CC holds.
        kept: Any = Signal(ThreadFlags)
        tested = Signal()
        with m.If(sequencer.step == Step.B):
            m.d.sync += [kept.eq(self.rows.flags), tested.eq(self._tested)]
        held_predicates = Cat(kept.predicates, 1)
        x, y, z = (held_predicates.bit_select(read.number, 1) ^ read.negated for read in decoded.predicates)
        votes = decoded.source_a == ValueSource.BALLOT
        verdict = verdict_of(decoded.vote, agrees, objects)
        m.d.comb += [
            lanes.instruction.eq(decoded),
            lanes.instruction.control.condition.eq(tested.replicate(len(decoded.control.condition))),
            lanes.executes.eq(self._executes),
            lanes.part.valid.eq(phase[Phase.COMPUTE] & (sequencer.step == Step.OPERANDS)),
            operands.a.eq(self._operands["a"]), operands.b.eq(self._operands["b"]),
            operands.c.eq(self._operands["c"]), operands.conditions.eq(kept.condition),
            operands.predicates.eq(kept.predicates),
            operands.sources.eq(Cat(Mux(votes, verdict, x), y, z))]

    def _write_back(self, m: Module) -> None:
        """Register, predicates and CC."""
        m.submodules.results = results = self.results
        held, decoded, sequencer = self._held, self._decoded, self.sequencer
        registers, rows, of_unit, result = self.registers, self.rows, self._write.operation, self.lanes.results[0]
        of_write, writes, register = self._in[Phase.WRITE], sequencer.writes, Signal(8)
        m.d.comb += [
            register.eq(self._number | self._writes_none.replicate(8)),
            sequencer.stays.eq(rows.taken), registers.loads.eq(sequencer.loads),
            registers.result.eq(Mux(of_write, self._operands["a"], result.value)),
            registers.write.eq(writes & self._executes & (register != RZ)),
            results.executes.eq(self._executes), results.p.eq(Mux(of_write, of_unit.predicate, decoded.p)),
            results.q.eq(decoded.q), results.conditional.eq(Mux(of_write, of_unit.conditional, decoded.writes_cc)),
            results.result.eq(result), results.before.eq(rows.flags), results.conditions.eq(result.conditions),
            rows.after.eq(results.after), rows.write.eq(writes)]
        with m.If(of_write):
            m.d.comb += [results.result.p.eq(self._supplied_flag), results.conditions.eq(self._supplied_conditions)]
        report = self.written
        m.d.comb += [
            report.valid.eq(writes), report.warp.eq(held.warp), report.serial.eq(held.serial),
            report.beat.eq(sequencer.thread), report.lanes.eq(self._executes), report.register.eq(register),
            report["values"][0].eq(registers.written), report.conditional.eq(results.conditional),
            report.conditions[0].eq(results.conditions), report.predicates.eq(results.written),
            report.flags[0].eq(results.after.predicates)]

    def _tell(self, m: Module, common: Any) -> None:
        """To other units; and what the flow unit reads comes back."""
        held, phase, sequencer, record = self._held, self._in, self.sequencer, self.dispatch.payload
        masks = [record.active, record.guard, record.predicate]
        for mask, bit in zip(masks, (self.active.bit, self._guard, self._predicate), strict=True):
            shifted = Signal(WARP_THREADS)
            m.d.comb += mask.eq(shifted)
            with m.If(self._shifts):
                m.d.sync += shifted.eq(Cat(shifted[1:], bit))
        tells = phase[Phase.TELL]
        m.d.comb += [
            self.dispatch.valid.eq(tells & ~self._computes), record.same.eq(self._same),
            record.operands[0].eq(self._operands["a"]), record.operands[1].eq(self._operands["b"])]
        pass_on(m, held, record, "warp", "serial", "pc", "word", "kind", "write_barrier", "read_barrier")
        with m.If(common.misaligned):
            m.d.comb += record.fault.eq(WarpError.MISALIGNED_IMMC_ADDR)
        with m.Elif(self._missing):
            m.d.comb += record.fault.eq(WarpError.INVALID_CONST_ADDR)

        # Errors. A constant that is missing is none if nobody wants it.
        executed = tells & self._computes & self._found
        refused = phase[Phase.START] & sequencer.refused & reported(self.report_mask, held.error)
        error = self.error
        m.d.sync += [
            error.valid.eq(refused | (executed & self._missing)),
            error.error.eq(Mux(sequencer.refused, held.error, WarpError.INVALID_CONST_ADDR))]
        m.d.comb += [
            error.warp.eq(held.warp), error.pc.eq(held.pc), self.status_warp.eq(held.warp),
            self.clear_status.eq(executed & (self._decoded.source_a == ValueSource.SPECIAL) & (
                self._decoded.special == SpecialRegister.WARPERRORSTATUSCLEAR))]

        write = self.write_flow.payload
        pass_on(m, held, write, "warp", "serial")
        m.d.comb += [
            self.write_flow.valid.eq(phase[Phase.OFFER]), sequencer.taken.eq(self.write_flow.ready),
            write.register.eq(field_of(held.word, FIELDS["Rd"])), write.predicate.eq(PT), write.last.eq(1),
            write.barrier.eq(held.write_barrier), write.threads.eq(~0)]

    def _complete(self, m: Module) -> None:
        """What is written or read lets go of scoreboards."""
        held, phase, sequencer = self._held, self._in, self.sequencer
        completion, passed, gathered = self.completion, self.passed, self.gathered
        operation, traps = self._gather.operation, held.kind == InstructionKind.TRAP
        m.d.comb += [
            sequencer.completes.eq(self._write.operation.last), completion.valid.eq(phase[Phase.COMPLETE]),
            completion.read_barrier.eq(Mux(
                self._computes | sequencer.refused | traps, held.read_barrier, NO_BARRIER)),
            passed.valid.eq(completion.valid | (phase[Phase.TELL] & traps)), passed.payload.completes.eq(1),
            gathered.valid.eq(phase[Phase.GATHER] & sequencer.last & operation.last),
            gathered.payload.valid.eq(gathered.valid), gathered.payload.barrier.eq(held.read_barrier)]
        pass_on(m, held, completion, "warp", "serial", "write_barrier")
        pass_on(m, completion, passed.payload, "warp", "write_barrier", "read_barrier")
        pass_on(m, held, gathered.payload, "warp")


def _if(condition: Any, value: Any) -> Any:
    """A value's bits where the condition holds, else 0."""
    return value & condition.replicate(len(value))
