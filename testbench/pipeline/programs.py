"""Kernels from NVIDIA's assembler on the execute unit: the instructions of the lanes, with their
stall counts.

Other units are replaced by the warp model: their results are written by operations of the lanes,
and the active threads change as in the model.
"""

from rtl.fetch.predecode import kind_of
from rtl.isa.control_code import (
    GROUP_BYTES,
    INSTRUCTION_BYTES,
    NO_BARRIER,
    SCOREBOARDS,
    ControlCode,
    instruction_address,
    unpack,
)
from rtl.isa.rate import quarter_rate
from rtl.layouts import InstructionKind, LaneClient
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement
from sim.model.warp.state import Warp
from sim.toolchain.assembly.spelling import spell
from testbench.kernels.manifest import Run, build
from testbench.pipeline.driver import Pipeline, Script, WriteData
from testbench.pipeline.reference import RESULT_CYCLES, Ledger, begin, constant_of, grid_of, word_at
from testbench.words import form_of

_FLOW_CYCLES = 13
"""Cycles from an instruction that changes the active threads to the warp's next one."""


class KernelLives:
    """All warps of a kernel, until a number of instructions have retired.

    Attributes:
        ledger: The comparison of all writes.
    """

    def __init__(self, bench: Bench, params: SmParams, run: Run, level: str, limit: int) -> None:
        launch = build(run, level)
        self.machine = WarpModel(launch, warps=params.warps)
        self.pipeline = Pipeline(
            bench, params, grid=grid_of(launch), report_mask=self.machine.report_mask
        )
        self.ledger = Ledger(self.pipeline)
        self._limit = limit
        self._known: list[Warp | None] = [None] * params.warps
        self._next = [0] * params.warps

    def run(self) -> None:
        """Simulates the kernel and compares all writes."""
        self.pipeline.play(self._script)
        self.ledger.check()

    def _script(self, pipeline: Pipeline) -> Script:
        free = 0
        while self.machine.instructions < self._limit and self.machine.live:
            for warp in self.machine.live:
                if self._known[warp.slot] is not warp:
                    yield from self._launch(warp)
                    free = pipeline.cycle
            ready = [
                warp
                for warp in self.machine.live
                if warp.barrier is None and self._next[warp.slot] <= pipeline.cycle
            ]
            if ready and free <= pipeline.cycle:
                warp = min(ready, key=lambda warp: self._next[warp.slot])
                quarter = quarter_rate(word_at(self.machine, warp))
                yield from self._step(warp)
                free = pipeline.cycle + (
                    pipeline.params.quarter_cycles if quarter else pipeline.params.beats
                )
            yield

    def _launch(self, warp: Warp) -> Script:
        """Launches a warp after everything of the former warp has ended, and clears its
        registers.
        """
        pipeline, registers = self.pipeline, self.machine.launch.registers
        yield from pipeline.settle(RESULT_CYCLES + 2 * pipeline.params.beats)
        yield from begin(pipeline, warp, warp.slot * registers)
        yield from pipeline.clear(warp.slot * registers + number for number in range(registers))
        self._known[warp.slot] = warp

    def _write(self, warp: Warp, number: int, record: Retirement, client: LaneClient) -> Script:
        """Writes a register in place of another unit."""
        threads, values = record.registers[number]
        sequence = self.pipeline.write(
            number, WriteData(values), warp=warp.slot, threads=threads, client=client
        )
        alone = Retirement(
            warp.slot, 0, 0, warp.masks, warp.masks, 0, 0, 0, registers={number: (threads, values)}
        )
        self.ledger.note(
            sequence, f"warp {warp.slot}, write of R{number}", alone, warp, (NO_BARRIER, NO_BARRIER)
        )
        yield from self.pipeline.wait(self.pipeline.params.beats)

    def _step(self, warp: Warp) -> Script:
        """Executes the next instruction of a warp."""
        pipeline, slot = self.pipeline, warp.slot
        word, control = word_at(self.machine, warp), self._control(warp)
        form = form_of(word)
        kind, values = kind_of(form), form.values(word)
        constant, missing = (
            constant_of(self.machine, form, values) if kind is InstructionKind.LANES else (0, False)
        )
        record = self.machine.retire(slot)
        self._next[slot] = pipeline.cycle + max(control.stall, 1)
        if quarter_rate(word):
            self._next[slot] = pipeline.cycle + pipeline.params.quarter_stall
        if kind is InstructionKind.LANES:
            sequence = pipeline.issue(
                word,
                warp=slot,
                pc=record.pc,
                constant=constant,
                missing=missing,
                write_barrier=control.write_barrier,
                read_barrier=control.read_barrier,
            )
            self.ledger.note(
                sequence,
                f"warp {slot}, {record.pc:#x} {spell(word)}",
                record,
                warp,
                (control.write_barrier, control.read_barrier),
            )
            if control.write_barrier < SCOREBOARDS:  # its readers wait for the scoreboard
                self._next[slot] = pipeline.cycle + RESULT_CYCLES + pipeline.params.beats
            return
        for number in record.registers:
            yield from self._write(warp, number, record, LaneClient.MEMORY)
            self._next[slot] = pipeline.cycle + RESULT_CYCLES
        for number, (threads, flags) in record.predicates.items():
            sequence = pipeline.write(
                0xFF, WriteData(flags=flags), warp=slot, threads=threads, predicate=number
            )
            alone = Retirement(
                slot, 0, 0, warp.masks, warp.masks, 0, 0, 0, predicates={number: (threads, flags)}
            )
            self.ledger.note(
                sequence, f"warp {slot}, write of P{number}", alone, warp, (NO_BARRIER, NO_BARRIER)
            )
            yield from pipeline.wait(pipeline.params.beats)
            self._next[slot] = pipeline.cycle + RESULT_CYCLES + pipeline.params.beats
        if record.after.active != record.before.active:
            pipeline.flow_result(slot, record.after.active)
            self._next[slot] = max(self._next[slot], pipeline.cycle + _FLOW_CYCLES)

    def _control(self, warp: Warp) -> ControlCode:
        """The control code of a warp's next instruction."""
        launch, address = self.machine.launch, instruction_address(warp.pc)
        group, place = divmod(address, GROUP_BYTES)
        word = launch.memory.read_number(
            launch.program_base + group * GROUP_BYTES, INSTRUCTION_BYTES
        )
        return unpack(word)[place // INSTRUCTION_BYTES - 1]
