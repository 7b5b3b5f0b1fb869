"""Random instructions of the lanes on several warps, as executed by the warp model.

Each instruction issues as early as the latency contract allows, or a little later. In between,
units read and write registers, and the active threads change.
"""

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np

from rtl.execute.decode import LANE_FORMS
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.effects import effects
from rtl.isa.errors import WarpError
from rtl.isa.floating import FLOATING
from rtl.isa.legality import encoding_error
from rtl.isa.rate import quarter_rate
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ, Form
from rtl.isa.table import find
from rtl.layouts import GATHER_REGISTERS, GATHERING, LaneClient
from rtl.params import SmParams
from sim.checks.testbench import Bench
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement, WarpMasks
from sim.model.warp.state import Warp
from sim.model.warp.vector.lanes import Condition, mask_of
from sim.toolchain.assembly.spelling import spell
from testbench.handmade import machine
from testbench.pipeline.driver import ALL, Pipeline, Script, WriteData
from testbench.pipeline.reference import RESULT_CYCLES, Ledger, begin, constant_of, grid_of, word_at
from testbench.pipeline.special import CLOCKS
from testbench.words import address, form_of

REGISTERS = 12
"""Registers of a thread: few, so that most instructions depend on a recent one."""
_BANK, _BANK_BYTES = 2, 64
_PLACES = 16
"""Number of places for a client's data."""
_SPECIALS = [number for number in range(128) if number not in CLOCKS]
_OFTEN = [number.value for number in SpecialRegister if number not in CLOCKS]


def random_word(source: Random, form: Form, registers: int = REGISTERS) -> int:
    """A random legal word of a form. Its registers and predicates are those of other instructions
    too.
    """
    while True:
        word = form.match
        for name, field in form.fields.items():
            if name in ("Ra", "Rb", "Rc", "Rd"):
                value = source.choice([*range(registers), RZ])
            elif name == "guard":
                value = source.choice([PT, PT, PT, *range(PT)])
            elif name == "guard_not":
                value = int(source.random() < 0.15)
            elif name == "special":
                value = source.choice(_OFTEN if source.random() < 0.8 else _SPECIALS)
            elif name == "bank":
                value = _BANK
            elif name == "offset":
                value = source.randrange(-4, _BANK_BYTES + 8, 4)
            elif name == "lanes":
                value = source.choice([15, 15, source.randrange(16)])
            else:
                value = source.choice(
                    [field.bounds[0], field.bounds[-1], source.choice(field.bounds)]
                )
            if not field.mask & form.mask:
                word = field.put(word, value)
        if find(word) is form and encoding_error(word, registers) is WarpError.NONE:
            return word


class RandomLives:
    """Warps that execute a random program, each from random places.

    Attributes:
        pipeline: The hardware.
        ledger: The comparison of all writes.
    """

    def __init__(self, bench: Bench, params: SmParams, steps: int, program: int = 300) -> None:
        self.bench, self._source, self._steps = bench, bench.random, steps
        self._length = program
        forms = [form for form in LANE_FORMS if params.floats or form not in FLOATING]
        words = [random_word(self._source, self._source.choice(forms)) for _ in range(program)]
        bank = self._source.randbytes(_BANK_BYTES)
        size, depth = self._source.choice([(32, 1), (8, 4), (4, 4)]), params.warps
        self.machine: WarpModel = machine(
            words,
            report_mask=0,
            warps=params.warps,
            registers=REGISTERS,
            constants={_BANK: bank},
            block=(*size, depth * 32 // (size[0] * size[1])),
            grid=(3, 1, 1),
            shared=0x1230,
        )
        self.pipeline = Pipeline(bench, params, grid=grid_of(self.machine.launch))
        self.ledger = Ledger(self.pipeline)
        self._gathers: dict[tuple[LaneClient, int], list[list[list[int]]]] = defaultdict(list)
        self._written_from: dict[LaneClient, int] = {}
        self._free = 0
        self._ready: list[dict[Any, int]] = [{} for _ in range(params.warps)]

    def run(self, **traces: Any) -> None:
        """Simulates the program and compares all writes and gathers."""
        pipeline = self.pipeline
        pipeline.play(self._script, **traces)
        self.ledger.check()
        for key, values in self._gathers.items():
            self.bench.expect(f"what was gathered for {key}", pipeline.gathered[key], values)

    def _warp(self, number: int) -> Warp:
        warp = self.machine.warps[number]
        assert warp is not None
        return warp

    def _script(self, pipeline: Pipeline) -> Script:
        source, warps = self._source, range(pipeline.params.warps)
        for number in warps:
            warp = self._warp(number)
            yield from begin(pipeline, warp, number * REGISTERS)
            for register in range(REGISTERS):
                self._write(number, register, ALL)
                yield from pipeline.wait(pipeline.params.beats)
        yield from pipeline.settle(12)
        for number in warps:
            cleared = source.sample(range(REGISTERS), REGISTERS // 2)
            yield from pipeline.clear(number * REGISTERS + register for register in cleared)
            self._warp(number).registers[cleared] = 0
        left = self._steps
        while left:
            for number in source.sample(warps, len(warps)):
                if source.random() < 0.8 and self._step(number):
                    left -= 1
                    break
            yield
        yield from pipeline.wait(max(self._free - pipeline.cycle, 0) + 20)
        for number in warps:
            for first in range(0, REGISTERS, 3):
                self._read(number, list(range(first, first + 3)))
                yield from pipeline.wait(pipeline.params.beats)

    def _step(self, number: int) -> bool:
        """Executes an instruction or an operation on a warp, or changes its active threads. Returns
        whether it was possible in this cycle.
        """
        kind = self._source.random()
        pipeline, cycle = self.pipeline, self.pipeline.cycle
        if kind < 0.05:
            self._activate(number)
            return True
        if self._free > cycle:
            return False
        if kind < 0.15:
            register = self._source.choice([*range(REGISTERS), RZ])
            self._write(number, register, self._source.choice([ALL, self._source.getrandbits(32)]))
            return True
        warp = self._warp(number)
        if warp.pc >= address(self._length - 1):
            warp.pc = address(self._source.randrange(self._length // 2))
        word = word_at(self.machine, warp)
        form = form_of(word)
        used, ready = effects(form, form.values(word)), self._ready[number]
        needs = [("register", register) for register in used.reads]
        needs += [("predicate", predicate) for predicate in used.predicate_reads]
        needs += [("cc",)] * used.reads_cc
        if any(ready.get(need, 0) > cycle for need in needs) or self._source.random() < 0.1:
            return False
        barriers = self._source.randrange(8), self._source.randrange(8)
        constant, missing = constant_of(self.machine, form, form.values(word))
        record = self.machine.retire(number)
        sequence = pipeline.issue(
            word,
            warp=number,
            pc=record.pc,
            constant=constant,
            missing=missing,
            write_barrier=barriers[0],
            read_barrier=barriers[1],
        )
        self._sent(number, sequence, f"{record.pc:#x} {spell(word)}", record, barriers)
        results = flags = cycle + RESULT_CYCLES
        flags += pipeline.params.beats - 1
        if quarter_rate(word):
            self._free, results = (
                cycle + pipeline.params.quarter_cycles,
                cycle + pipeline.params.quarter_stall,
            )
            flags = results
        for register in used.writes:
            ready["register", register] = results
        for predicate in used.predicate_writes:
            ready["predicate", predicate] = flags
        if used.writes_cc:
            ready["cc",] = results
        return True

    def _sent(
        self, number: int, sequence: int, name: str, record: Retirement, barriers: tuple[int, int]
    ) -> None:
        """Records an instruction or operation that passes the lanes now."""
        self.ledger.note(sequence, f"warp {number}, {name}", record, self._warp(number), barriers)
        self._free = self.pipeline.cycle + self.pipeline.params.beats

    def _activate(self, number: int) -> None:
        active = self._source.choice(
            [ALL, self._source.getrandbits(32), 1 << self._source.randrange(32), 0]
        )
        self.pipeline.flow_result(number, active)
        self._warp(number).masks = WarpMasks(active)

    def _write(self, number: int, register: int, threads: int) -> None:
        """Writes a register, and perhaps a predicate or CC, in place of a unit. A gather may
        overlap it.
        """
        source, warp = self._source, self._warp(number)
        if source.random() < 0.5:
            self._read_some(source.choice(range(self.pipeline.params.warps)))
        client = source.choice([LaneClient.MEMORY, LaneClient.CONVERSION, LaneClient.BARRIER])
        values = np.array(
            [
                source.choice([0, 1, source.getrandbits(32), 0xFFFF_FFFF, 0x8000_0000])
                for _ in range(32)
            ],
            np.uint32,
        )
        conditions, flags = [source.randrange(16) for _ in range(32)], source.getrandbits(32)
        predicate, conditional = source.choice([*range(PT), PT]), source.random() < 0.3
        record = Retirement(number, 0, 0, warp.masks, warp.masks, 0, 0, 0)
        if threads:
            warp.write_register(record, register, values, threads)
            warp.write_predicate(record, predicate, flags, threads)
            if conditional:
                flag = [mask_of(np.array(conditions) >> place & 1 != 0) for place in range(4)]
                warp.write_condition(record, Condition(*flag), threads)
        barrier = source.randrange(8)
        sequence = self.pipeline.write(
            register,
            WriteData(values.tolist(), flags, conditions),
            warp=number,
            threads=threads,
            predicate=predicate,
            conditional=conditional,
            client=client,
            index=self._place(client),
            barrier=barrier,
        )
        self._sent(
            number,
            sequence,
            f"write of R{register} by {client.name}",
            record,
            (barrier, NO_BARRIER),
        )
        ready, cycle = self._ready[number], self.pipeline.cycle
        ready["register", register] = ready["cc",] = cycle + RESULT_CYCLES
        ready["predicate", predicate] = cycle + RESULT_CYCLES + self.pipeline.params.beats - 1

    def _place(self, client: LaneClient) -> int:
        """A place for the data of a client's write, other than that of its last one: with one beat
        per instruction those may not have been read yet.
        """
        place = self._source.choice(
            [place for place in range(_PLACES) if place != self._written_from.get(client)]
        )
        self._written_from[client] = place
        return place

    def _read_some(self, number: int) -> None:
        """Gathers registers of a warp, unless too few are ready."""
        ready, cycle = self._ready[number], self.pipeline.cycle
        able = [
            register
            for register in range(REGISTERS)
            if ready.get(("register", register), cycle + 1) <= cycle
        ]
        if len(able) >= GATHER_REGISTERS:
            self._read(number, self._source.sample(able, GATHER_REGISTERS))

    def _read(self, number: int, registers: list[int]) -> None:
        """Gathers registers of a warp."""
        key = self.pipeline.gather(
            registers,
            warp=number,
            client=self._source.choice(GATHERING),
            index=self._source.randrange(_PLACES),
        )
        self._gathers[key].append(self._warp(number).registers[registers].tolist())
