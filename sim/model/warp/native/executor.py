"""Runs a warp model by the compiled core where possible, and by the model elsewhere, on the same
state.
"""

import ctypes
import os
from collections.abc import Sequence
from functools import cache

import numpy as np

from rtl.isa.control_code import GROUP_BYTES, INSTRUCTION_BYTES, instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierReduction
from rtl.isa.syntax import PT, RZ
from rtl.isa.table import find
from rtl.isa.tokens import TOKEN_BYTES, TOKENS_PER_LINE, TRAP_RESERVE, TokenKind
from sim.engine.errors import EngineError
from sim.launch import Launch

from ..retirement import StackToken, WarpMasks
from ..state import Arrival, Cta, Warp, created_threads
from ..vector.lanes import Condition
from . import library, state
from .instructions import CTA_INSTRUCTIONS, CoreFunctions, Decoder, ExecutionPlan
from .memory import HostMemory
from .protocol import ExecutableModel

__all__ = [
    "Compiled",
    "Executor",
    "compiled",
    "executor_for",
    "is_available",
    "is_on",
    "switch",
    "threshold_of",
]

SWITCH = "WARPSTACK_COMPILED_MODEL"
"""The environment variable that disables compiled instructions if it is ``0``."""
THRESHOLD = 1_000
"""Number of instructions of a launch that the model executes before its kernel is compiled."""
_MISSES = 2_000
"""Number of executions by the model for lack of a compiled function that trigger the next
compilation.
"""
_MOST_INSTRUCTIONS = 4_096
"""Number of instructions of a program that are compiled together, from the first missing one on."""
_BUDGET, _MODEL, _PAGE_WANTED, _NOBODY_READY, _ALL_ENDED = range(5)
_MOST_TOKENS_ON_CHIP = 240
_BARRIER_FIELDS = ("arrived", "expected", "population", "some_false", "some_true")
_KINDS = {kind.value: kind for kind in TokenKind}
_ROW_BYTES = state.ROWS * state.LANES * 4

_switch = {"on": True}


def switch(on: bool) -> None:
    """Enables or disables compiled instructions of the warp model in this process."""
    _switch["on"] = on


def is_on() -> bool:
    """Whether compiled instructions of the warp model are enabled; a compiler may still be missing."""
    return _switch["on"] and os.environ.get(SWITCH, "1") != "0"


class Compiled:
    """The state that all executors of this process share.

    Attributes:
        misses: Executions by the model of instructions whose functions are not compiled yet.
        wanted: Texts of these functions by name.
        seconds: Processor time spent on compilation, including the compiler's, in seconds.
    """

    def __init__(self) -> None:
        self.library = library.core_library()
        state.check_sizes(self.library)
        self.core = CoreFunctions(self.library)
        self.functions = library.CompiledFunctions()
        self.wanted: dict[str, str] = {}
        self.misses = 0
        self.seconds = 0.0

    def want(self, texts: dict[str, str]) -> None:
        """Loads the functions that are in the cache, and requests the compilation of the others."""
        new = {
            name: text
            for name, text in texts.items()
            if name not in self.functions and name not in self.wanted
        }
        self.wanted |= {name: new[name] for name in self.functions.load(new)}

    def compile(self) -> None:
        """Compiles all requested functions."""
        wanted, self.wanted, self.misses = self.wanted, {}, 0
        before = sum(os.times()[:4])
        if wanted:
            self.functions.compile(wanted)
        self.seconds += sum(os.times()[:4]) - before


@cache
def compiled() -> Compiled:
    """Returns the state that all executors of this process share; EngineError if the core cannot be
    compiled.
    """
    return Compiled()


@cache
def is_available() -> bool:
    """Whether there is a compiler whose output can be loaded. The first call compiles the core."""
    if not library.has_compiler():
        return False
    try:
        compiled()
    except (EngineError, OSError):
        return False
    return True


def threshold_of(launch: Launch) -> int:
    """Returns the number of instructions that the model executes before the launch is compiled: 0
    for a kernel that was compiled before.
    """
    return 0 if _key_of(launch) in _seen else THRESHOLD


def _key_of(launch: Launch) -> tuple[object, ...]:
    """Returns a key for kernels, usually unique: a collision only compiles a kernel too early."""
    return launch.kernel.name, launch.program_base, launch.program_size, launch.entry


_seen: set[tuple[object, ...]] = set()
"""Keys of the kernels that have been compiled in this process."""


def executor_for(machine: ExecutableModel) -> "Executor | None":
    """Returns the executor of a machine.

    None if the model runs alone: without a compiler, or with more warps or tokens than the core has
    room for.
    """
    if (
        machine.slots > state.SLOTS
        or machine.stack_tokens > _MOST_TOKENS_ON_CHIP
        or not is_on()
        or not is_available()
    ):
        return None
    _seen.add(_key_of(machine.launch))
    return Executor(machine, compiled())


class Executor:
    """Runs the warps of one machine.

    While it runs, warps, barriers and CTAs are in the core's structures, and the model's objects
    are out of date; registers and memory are shared. Before the model executes an instruction, the
    state of its warp, and for barriers that of its CTA, is copied to the model. Once errors or
    traps are involved, all state is copied and the model continues alone.

    Parameters:
        machine: The machine.
        shared: The core and the functions.
        eager: Whether functions are compiled as soon as an instruction needs them.
    """

    def __init__(self, machine: ExecutableModel, shared: Compiled, eager: bool = False) -> None:
        self._machine, self._compiled, self._eager = machine, shared, eager
        launch, slots = machine.launch, machine.slots
        self._registers = np.zeros((slots, state.ROWS, state.LANES), np.uint32)
        self._shared = np.zeros((slots, max(launch.shared, 1)), np.uint8)
        on_chip = machine.stack_tokens
        self._tokens = (state.NativeToken * ((on_chip + 2 * TOKENS_PER_LINE) * slots))()
        self._warps = (state.NativeWarp * slots)()
        self._ctas = (state.NativeCta * slots)()
        self._core = core = state.NativeMachine()
        core.warps, core.ctas = self._warps, self._ctas
        core.slots, core.slot_mask = slots, (1 << slots) - 1
        core.grid[:] = launch.grid
        core.cta_count, core.cta_warps = machine.cta_count, launch.warps
        core.entry, core.register_rows = launch.entry, min(launch.registers, RZ)
        core.local_memory, core.warp_block = machine.local_memory, launch.warp_block
        core.local_bytes, core.shared_bytes = launch.local, launch.shared
        core.stack_limit = launch.crs // TOKEN_BYTES - TRAP_RESERVE if launch.crs else on_chip
        core.on_chip, core.check_api_calls, core.barriers = (
            on_chip,
            launch.check_api_calls,
            launch.barriers,
        )
        self._created = np.array(
            [created_threads(launch, number) for number in range(launch.warps)], np.uint32
        )
        core.created = self._created.ctypes.data
        self._banks = {
            bank: np.frombuffer(content or b"\0", np.uint8)
            for bank, content in machine.banks.items()
        }
        for bank, content in machine.banks.items():
            core.banks[bank], core.bank_bytes[bank] = self._banks[bank].ctypes.data, len(content)
        for slot, warp in enumerate(self._warps):
            warp.slot = slot
            warp.registers = self._registers.ctypes.data + slot * _ROW_BYTES
            at = slot * (on_chip + 2 * TOKENS_PER_LINE)
            warp.tokens = ctypes.cast(
                ctypes.byref(self._tokens, at * ctypes.sizeof(state.NativeToken)),
                ctypes.POINTER(state.NativeToken),
            )
        for number, cta in enumerate(self._ctas):
            cta.shared = self._shared.ctypes.data + number * self._shared.shape[1]
        self._memory = HostMemory(launch.memory, launch.program_base, core)
        self._decoder = Decoder(machine, shared.core)
        self._program = b""
        self._report_mask = -1
        self._ops = (state.NativeOp * 0)()
        self._plans: dict[int, ExecutionPlan | None] = {}
        self._cta_objects: dict[int, tuple[int, Cta]] = {}
        self._serials: list[int | None] = [None] * slots
        """Serial numbers of the CTAs of the warps in the model's objects, by slot."""

    # The program.

    def _look_at_program(self) -> None:
        """Discards all plans if the program or the mask of reported errors has changed."""
        machine = self._machine
        launch = machine.launch
        program = launch.memory.read(launch.program_base, launch.program_size)
        if program == self._program and machine.report_mask == self._report_mask:
            return
        self._program, self._report_mask = program, machine.report_mask
        self._ops = (state.NativeOp * (len(program) // INSTRUCTION_BYTES))()
        self._plans = {}
        self._core.ops, self._core.op_count = self._ops, len(self._ops)

    def _word(self, index: int) -> int:
        at = index * INSTRUCTION_BYTES
        return int.from_bytes(self._program[at : at + INSTRUCTION_BYTES], "little")

    def _plan(self, index: int) -> ExecutionPlan | None:
        """Returns the plan of the instruction at an index of the program, and requests the
        functions that it needs.
        """
        if index not in self._plans:
            plan = self._plans[index] = self._decoder.plan(
                self._word(index), index * INSTRUCTION_BYTES
            )
            if plan is not None:
                self._compiled.want(dict(plan.functions))
                ctypes.pointer(self._ops[index])[0] = plan.op
                self._install(index, plan)
        return self._plans[index]

    def _install(self, index: int, plan: ExecutionPlan) -> bool:
        """Enables the core to execute an instruction; returns False if a function is not compiled
        yet.
        """
        functions, op = self._compiled.functions, self._ops[index]
        if not all(name in functions for name in plan.functions):
            op.function = None
            return False
        if plan.helper:
            op.helper = functions[plan.helper]
        op.function = functions[plan.function] if plan.function else plan.op.function
        return True

    def _wants_model(self, index: int) -> bool:
        """Whether the model has to execute an instruction at which the core stopped; False if the
        core now can.
        """
        if index >= len(self._ops):
            return True
        # The core has a function for it, and left the instruction to the model.
        if self._ops[index].function:
            return True
        is_new = index not in self._plans
        plan = self._plan(index)
        if plan is None:
            return True
        if self._ops[index].function or (not is_new and self._install(index, plan)):
            return False
        self._compiled.misses += 1
        if self._eager or self._compiled.misses >= _MISSES:
            self._compile(index)
        return not self._install(index, plan)

    def _compile(self, index: int) -> None:
        """Compiles the functions that the program needs, from an instruction on."""
        if not self._eager:
            first = min(index, self._machine.launch.entry // INSTRUCTION_BYTES)
            for other in range(first, min(first + _MOST_INSTRUCTIONS, len(self._ops))):
                if other * INSTRUCTION_BYTES % GROUP_BYTES:
                    self._plan(other)
        self._compiled.compile()
        for other, plan in self._plans.items():
            if plan is not None and not self._ops[other].function:
                self._install(other, plan)

    def compile_all(self) -> None:
        """Compiles all instructions of the program."""
        self._look_at_program()
        for index in range(len(self._ops)):
            if index * INSTRUCTION_BYTES % GROUP_BYTES:
                self._plan(index)
        self._compiled.compile()

    def has_plan(self, word: int) -> bool:
        """Whether the core can execute a word, once it is compiled."""
        return self._decoder.plan(word, INSTRUCTION_BYTES) is not None

    # Running.

    def _applies(self) -> bool:
        """Whether the core can run all warps: no check of bounds, and no trap."""
        machine = self._machine
        return (
            is_on()
            and machine.bounds is None
            and not machine.traps.trapping
            and not machine.traps.stop
            and all(warp.is_outside_traps for warp in machine.live)
        )

    def run(self, end: int | None) -> None:
        """Executes instructions until the machine has executed ``end`` of them, or the model has to
        continue.
        """
        if not self._applies():
            return
        machine, core = self._machine, self._core
        self._look_at_program()
        self._memory.update()
        self._take_in()
        run, structure = self._compiled.library.run, ctypes.byref(core)
        going = True
        while going:
            left = (1 << 62) if end is None else max(end - machine.instructions, 0)
            core.left, core.clock, core.missing_page = left, machine.clock, 0
            reason = run(structure)
            machine.instructions += left - core.left
            machine.clock = core.clock
            if reason == _PAGE_WANTED:
                self._memory.make_missing_page()
            elif reason == _MODEL:
                going = self._leave_to_model(core.slot)
            else:
                going = False
                self._give_back()

    def _leave_to_model(self, slot: int) -> bool:
        """Handles an instruction at which the core stopped.

        Returns False if all state is back in the model, which has to continue.
        """
        machine, core, warp = self._machine, self._core, self._warps[slot]
        address = instruction_address(warp.pc)
        index = address // INSTRUCTION_BYTES
        if not address % INSTRUCTION_BYTES and not self._wants_model(index):
            core.last = (slot - 1) % machine.slots  # The core schedules this slot again.
            return True
        form = find(self._word(index)) if index < len(self._ops) else None
        cta = warp.cta if form is not None and form.name in CTA_INSTRUCTIONS else None
        slots = [slot] if cta is None else self._slots_of(cta)
        for one in slots:
            self._warp_out(one)
        if cta is not None:
            self._barriers_out(cta)
        machine.last_slot, machine.next_cta = slot, core.next_cta
        own = machine.warps[slot]
        assert own is not None
        execution = machine.execute(own)
        record = execution.record
        if (
            record.error is not WarpError.NONE
            or record.terminated
            or not own.is_outside_traps
            or machine.traps.trapping
        ):
            self._give_back(besides=slots)
            machine.complete(own, execution)
            if not self._applies():
                return False
            self._look_at_program()
            self._take_in()
        else:
            machine.complete(own, execution)
            for one in slots:
                self._warp_in(one)
            if cta is not None:
                self._barriers_in(cta)
            if record.memory:
                self._look_at_program()
        self._memory.update()
        return True

    # From the core to the model.

    def _slots_of(self, cta: int) -> list[int]:
        """Returns the slots of a CTA's live warps."""
        return [slot for slot in self._occupied() if self._warps[slot].cta == cta]

    def _occupied(self) -> list[int]:
        return [slot for slot in range(self._machine.slots) if self._core.occupied >> slot & 1]

    def _cta_object(self, number: int) -> Cta:
        """Returns the model's object of a CTA."""
        serial = self._ctas[number].serial
        known = self._cta_objects.get(number)
        if known is None or known[0] != serial:
            cta = self._machine.make_cta(serial)
            cta.shared = self._shared_of(number)
            known = self._cta_objects[number] = (serial, cta)
        return known[1]

    def _shared_of(self, number: int) -> memoryview:
        return memoryview(self._shared[number])[: self._machine.launch.shared]

    def _warp_out(self, slot: int) -> None:
        """Copies a warp's state from the core to the model."""
        machine, core = self._machine, self._warps[slot]
        serial = self._ctas[core.cta].serial
        warp = machine.warps[slot]
        if warp is None or self._serials[slot] != serial:
            cta = self._cta_object(core.cta)
            warp = machine.warps[slot] = Warp(
                slot, core.number, cta, machine.launch, core.local_base, machine.stack_tokens
            )
            self._share_registers(warp)
            cta.warps.append(warp)
            self._serials[slot] = serial
        warp.pc = core.pc
        warp.masks = WarpMasks(core.active, *core.disabled)
        warp.predicates[:PT] = core.predicates[:PT]
        warp.condition = Condition(*core.condition)
        if core.depth or warp.stack.depth:
            tokens = [
                StackToken(_KINDS[token.kind], token.pc, token.mask, bool(token.counted))
                for token in core.tokens[: core.depth - core.first]
            ]
            line = core.first // TOKENS_PER_LINE
            changed = [
                line + bit for bit in range(core.dirty.bit_length()) if core.dirty >> bit & 1
            ]
            warp.stack.put_on_chip(core.first, tokens, changed)
        warp.api_call_depth, warp.kill_future_branch = (
            core.api_call_depth,
            bool(core.kill_future_branch),
        )
        warp.barrier = None if core.barrier < 0 else core.barrier
        warp.reduction = core.reduction
        warp.trap.last_pc = core.last_pc

    def _share_registers(self, warp: Warp) -> None:
        """Moves a warp's registers to the core's memory."""
        warp.share_registers(self._registers[warp.slot, : RZ + 1])

    def _barriers_out(self, number: int) -> None:
        """Copies the barriers of a CTA from the core to the model, and its live warps' waits. Its
        warps must be up to date.
        """
        cta, core = self._cta_object(number), self._ctas[number]
        warps = {slot: self._machine.warps[slot] for slot in self._slots_of(number)}
        cta.warps[:] = [warp for warp in warps.values() if warp is not None]
        cta.keeps_reference = bool(core.keeps_reference)
        for barrier, source in zip(cta.barriers, core.barriers, strict=True):
            if not (
                source.arrived
                or source.waiting
                or source.expected
                or source.population
                or barrier.arrived
                or barrier.waiting
                or source.some_false
                or source.some_true
            ):
                continue
            for name in _BARRIER_FIELDS:
                setattr(barrier, name, getattr(source, name))
            barrier.waiting = [
                Arrival(
                    warp,
                    None if arrival.reduction < 0 else BarrierReduction(arrival.reduction),
                    arrival.population,
                    arrival.some_false,
                    arrival.some_true,
                )
                for arrival in source.arrivals[: source.waiting]
                if (warp := warps[arrival.slot]) is not None
            ]

    def _give_back(self, besides: Sequence[int] = ()) -> None:
        """Copies all state from the core to the model; the warps in the slots ``besides`` and their
        barriers are up to date.
        """
        machine, core = self._machine, self._core
        occupied = self._occupied()
        for slot in range(machine.slots):
            if slot not in occupied:
                machine.warps[slot] = None
            elif slot not in besides:
                self._warp_out(slot)
        whole = {self._warps[slot].cta for slot in besides} if len(besides) > 1 else set()
        for number in {self._warps[slot].cta for slot in occupied} - whole:
            self._barriers_out(number)
        machine.next_cta, machine.last_slot = core.next_cta, core.last

    # From the model to the core.

    def _take_in(self) -> None:
        """Copies all state from the model to the core."""
        machine, core = self._machine, self._core
        live = machine.live
        core.occupied = core.ready = 0
        ctas = {id(warp.cta): warp.cta for warp in live}
        serials = {key: machine.number_of(cta) for key, cta in ctas.items()}
        numbers = {
            id(warp.cta): self._warps[warp.slot].cta
            for warp in live
            if self._serials[warp.slot] == serials[id(warp.cta)]
        }
        free = [number for number in range(machine.slots) if number not in numbers.values()]
        for key in ctas:
            if key not in numbers:
                numbers[key] = free.pop(0)
        core.free_ctas = sum(1 << number for number in free)
        for key, cta in ctas.items():
            self._cta_in(cta, numbers[key], serials[key])
        for warp in live:
            self._warps[warp.slot].cta, self._serials[warp.slot] = (
                numbers[id(warp.cta)],
                serials[id(warp.cta)],
            )
            self._warp_in(warp.slot)
        for number in numbers.values():
            self._barriers_in(number)
        core.next_cta, core.last = machine.next_cta, machine.last_slot

    def _cta_in(self, cta: Cta, number: int, serial: int) -> None:
        core = self._ctas[number]
        known = self._cta_objects.get(number)
        if known is None or known[1] is not cta:
            self._shared[number, : len(cta.shared)] = (
                list(cta.shared) if not cta.shared else np.frombuffer(cta.shared, np.uint8)
            )
            cta.shared = self._shared_of(number)
            self._cta_objects[number] = (serial, cta)
        core.index[:], core.serial = cta.index, serial

    def _warp_in(self, slot: int) -> None:
        """Copies a warp's state from the model to the core."""
        warp, core, machine = self._machine.warps[slot], self._warps[slot], self._core
        assert warp is not None
        if warp.registers.base is not self._registers:
            self._registers[slot, :RZ] = warp.registers[:RZ]
            self._share_registers(warp)
        core.pc, core.number, core.local_base = warp.pc, warp.number, warp.local_base
        masks = warp.masks
        core.active = masks.active
        core.disabled[:] = [getattr(masks, name) for name in state.DISABLED]
        core.predicates[: PT + 1] = warp.predicates
        condition = warp.condition
        core.condition[:] = (condition.zero, condition.sign, condition.carry, condition.overflow)
        core.depth = warp.stack.depth
        core.first, tokens, changed = warp.stack.on_chip
        for place, token in enumerate(tokens):
            core.tokens[place] = (token.pc, token.mask, token.kind.value, token.counted)
        core.dirty = sum(1 << line - core.first // TOKENS_PER_LINE for line in changed)
        core.api_call_depth, core.kill_future_branch = warp.api_call_depth, warp.kill_future_branch
        core.barrier = -1 if warp.barrier is None else warp.barrier
        core.reduction = warp.reduction & 0xFFFF_FFFF
        core.last_pc = warp.trap.last_pc
        bit = 1 << slot
        machine.occupied |= bit
        machine.ready = machine.ready & ~bit if warp.barrier is not None else machine.ready | bit

    def _barriers_in(self, number: int) -> None:
        """Copies the barriers of a CTA from the model to the core."""
        cta, core = self._cta_object(number), self._ctas[number]
        core.live, core.keeps_reference = len(cta.warps), cta.keeps_reference
        for barrier, target in zip(cta.barriers, core.barriers, strict=True):
            for name in _BARRIER_FIELDS:
                setattr(target, name, getattr(barrier, name))
            target.waiting = len(barrier.waiting)
            for place, arrival in enumerate(barrier.waiting):
                reduction = -1 if arrival.reduction is None else arrival.reduction.value
                target.arrivals[place] = (
                    arrival.warp.slot,
                    reduction,
                    arrival.population,
                    arrival.some_false,
                    arrival.some_true,
                )
