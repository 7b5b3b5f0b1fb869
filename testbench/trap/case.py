"""A case of the trap testbench: a program, its trap handler, and a script of the host."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from rtl.isa.errors import REPORT_MASK_RESET, WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError, trap_bit
from rtl.isa.trap_status import TRAP_REASONS
from sim.checks.testbench import Bench
from sim.launch import Launch
from sim.machine.host import HardwareHost
from sim.toolchain.cubin.object_file import PARAMETER_BASE
from testbench.sm.errors import launch_text
from testbench.trap.programs import kernel_text, with_handler
from testbench.words import address

PATIENCE = 20_000
"""Timeout in cycles of everything that a case waits for."""
ADDRESS = (
    "S2R R0, SR_TID.X",
    "MOV R3, c[0x0][out+4]",
    "MOV R2, c[0x0][out]",
    "ISCADD R2, R0, R2, 0x2",
)
"""Instructions of a kernel. R0 becomes the thread number, R2 and R3 the address of the thread's
word of ``out``.
"""
_WORDS = 256
LOG_AT = 128
_LOG_WORDS = 4
LOG = (
    "S2R R16, SR_VIRTID",
    "LOP32I.AND R16, R16, 0x3f00",
    "SHR.U32 R17, R16, 0x4",
    f"MOV R18, c[0x0][{PARAMETER_BASE:#x}]",
    "IADD R18, R18, R17",
    f"IADD32I R18, R18, {4 * LOG_AT:#x}",
    f"MOV R19, c[0x0][{PARAMETER_BASE + 4:#x}]",
    "ISETP.EQ.U32.AND P5, PT, R16, RZ, PT",
)
"""Instructions of a handler. R18 and R19 become the address of the slot's four words of the log, P5
marks slot 0.
"""
COUNT = (*LOG, "LDG.E R20, [R18]", "IADD32I R20, R20, 0x1", "STG.E [R18], R20")
"""LOG, and an increment of the slot's first word, which counts the entries of its warps."""
BUSY = (
    "MOV32I R23, 0x100",
    "busy:",
    "IADD32I R23, R23, -0x1",
    "ISETP.NE.U32.AND P6, PT, R23, RZ, PT",
    "@P6 BRA busy",
)
"""Instructions of a kernel that take some thousand cycles."""
DELAY = (
    "MOV32I R21, 0x40",
    "delay:",
    "IADD32I R21, R21, -0x1",
    "ISETP.NE.U32.AND P4, PT, R21, RZ, PT",
    "@P4 BRA delay",
)
"""Instructions of a handler that take some hundred cycles."""
_EFFECT = 3
"""Cycles from a write of the host until woken warps are no longer paused."""


class Debugger:
    """The host of a case: writes and reads registers, waits, and compares.

    Attributes:
        host: The host's access to the running machine.
        launch: The launch that runs.
    """

    def __init__(self, bench: Bench, what: str, host: HardwareHost, launch: Launch) -> None:
        self.host, self.launch = host, launch
        self._bench, self._what = bench, what

    def expect(self, what: str, found: object, expected: object) -> None:
        """Fails the testbench unless ``found`` equals ``expected``.

        If the warp model has differed, the run reports that failure instead.
        """
        if not self.host.failed:
            self._bench.expect(f"{self._what}: {what}", found, expected)

    @property
    def handler(self) -> int:
        """The pc of the trap handler."""
        assert self.launch.trap_handler is not None
        return self.launch.trap_handler

    # Registers.

    async def write(self, register: str, value: int) -> None:
        """Writes a register."""
        await self.host.write(register, value)

    async def control(self, **fields: int) -> None:
        """Changes some fields of DBGR_CONTROL0."""
        value = await self.host.read("DBGR_CONTROL0")
        await self.write("DBGR_CONTROL0", SM_REGISTERS["DBGR_CONTROL0"].put(value, **fields))

    async def stop(self) -> None:
        """Sets the stop trigger."""
        await self.control(STOP_TRIGGER=1)

    async def go(self) -> None:
        """Clears the stop trigger and then sets RUN_TRIGGER, in the order of the drivers."""
        await self.control(STOP_TRIGGER=0)
        await self.run_trigger()

    async def run_trigger(self) -> None:
        """Sets RUN_TRIGGER, which wakes all paused warps."""
        await self.control(RUN_TRIGGER=1)
        await self.run(_EFFECT)

    async def wake(self, slots: int) -> None:
        """Wakes the paused warps of a mask of slots."""
        await self.write("BPT_PAUSE_MASK", ~slots & 0xFFFF_FFFF)
        await self.run(_EFFECT)

    async def see(self, register: str, expected: int) -> None:
        """Compares the value of a register."""
        self.expect(register, await self.host.read(register), expected)

    async def see_state(self, *, trapping: int, locked: int) -> None:
        """Compares the fields SM_IN_TRAP_MODE and LOCKED_DOWN of DBGR_STATUS0."""
        found = [
            await self.host.field("DBGR_STATUS0", name)
            for name in ("SM_IN_TRAP_MODE", "LOCKED_DOWN")
        ]
        self.expect("SM_IN_TRAP_MODE, LOCKED_DOWN", found, [trapping, locked])

    async def see_events(self, *events: str, reasons: Sequence[int] = ()) -> None:
        """Expects that HWW_GLOBAL_ESR has exactly these bits, and those of these BPT.TRAP
        reasons.
        """
        word = await self.host.read("HWW_GLOBAL_ESR")
        self.expect(
            "events", {event.name for event in GlobalError if word >> event.value & 1}, set(events)
        )
        self.expect(
            "reasons",
            [reason for reason in TRAP_REASONS if word >> trap_bit(reason) & 1],
            list(reasons),
        )

    async def see_error(self, error: WarpError, warp: int, pc: int) -> None:
        """Compares the error status of a warp: code, warp and pc."""
        found = await self.host.field("HWW_WARP_ESR", "ERROR")
        self.expect("error", WarpError(found).name, error.name)
        self.expect("warp", await self.host.field("HWW_WARP_ESR", "WARP_ID"), warp)
        self.expect("pc", await self.host.read("HWW_WARP_ESR_PC"), pc)

    async def clear(self) -> None:
        """Clears the error status of the machine and of the warp."""
        await self.write("HWW_GLOBAL_ESR", 0xFFFF_FFFF)
        await self.write("HWW_WARP_ESR", 0)

    # Time.

    async def run(self, cycles: int) -> None:
        """Waits for ``cycles`` cycles."""
        end = self.host.cycles + cycles
        while self.host.cycles < end and not self.host.failed:
            await self.host.run(end - self.host.cycles)

    async def begin(self, instructions: int = 1) -> None:
        """Waits until this many instructions have issued."""
        while await self.host.read("instructions") < instructions and not self.host.failed:
            await self.run(1)

    async def lock_down(self) -> None:
        """Waits for the lock-down, and until its cause is in the error status. Fails after PATIENCE
        cycles.
        """
        self._require("lock-down", await self.host.until(lambda host: host.locked_down, PATIENCE))
        await self.run(_EFFECT)

    async def interrupt(self) -> None:
        """Waits for the interrupt. Fails after PATIENCE cycles."""
        self._require("interrupt", await self.host.until(lambda host: host.interrupted, PATIENCE))

    async def leave(self) -> None:
        """Waits until SM_IN_TRAP_MODE is clear. Fails after PATIENCE cycles."""
        for _ in range(PATIENCE // 100):
            if not await self.host.field("DBGR_STATUS0", "SM_IN_TRAP_MODE"):
                return
            await self.run(100)
        self._require("end of the trap", False)

    async def hold(self, *, after: int = 0) -> None:
        """Sets the stop trigger after this many issued instructions, and waits for the
        lock-down.
        """
        if after:
            await self.begin(after)
        await self.stop()
        await self.lock_down()

    async def end(
        self, patience: int = PATIENCE, *, words: Sequence[int] = (), entries: Sequence[int] = ()
    ) -> None:
        """Waits for the end of the grid and checks its results.

        Args:
            patience: Timeout in cycles.
            words: Expected first words of the buffer ``out``.
            entries: Expected entries of the warps of the first slots; the handler must contain
                :data:`COUNT`.
        """
        self._require(
            "end of the grid", await self.host.until(lambda host: host.ended, patience), patience
        )
        self.expect("words", self.words(0, len(words)), list(words))
        self.expect("entries", [self.log(slot)[0] for slot in range(len(entries))], list(entries))

    def _require(self, what: str, came: bool, patience: int = PATIENCE) -> None:
        """Fails if an expected event did not occur, unless the warp model has differed, which the
        run reports.
        """
        if not came and not self.host.failed:
            self._bench.fail(f"{self._what}: no {what} after {patience} cycles")

    # Memory.

    def words(self, first: int, count: int) -> list[int]:
        """``count`` words of the buffer ``out`` from word ``first`` on."""
        base, _ = self.launch.buffers["out"]
        return [
            self.host.memory.read_number(base + 4 * at, 4) for at in range(first, first + count)
        ]

    def log(self, slot: int) -> list[int]:
        """The four words of the log of a slot."""
        return self.words(LOG_AT + _LOG_WORDS * slot, _LOG_WORDS)


Script = Callable[[Debugger], Awaitable[None]]


@dataclass(frozen=True)
class TrapCase:
    """A kernel and its handler (None: no handler) as lines of assembly, the script of the host, and
    how the run must end.
    """

    name: str
    script: Script
    kernel: Sequence[str]
    handler: Sequence[str] | None = None
    warps: int = 1
    grid: int = 1
    crs: int = 1024
    ends: str = "ok"
    report_mask: int = REPORT_MASK_RESET
    check_calls: bool = False

    def launch(self) -> Launch:
        """Assembles the launch."""
        text = kernel_text(self.kernel, registers=24, shared=256)
        launch = launch_text(
            text, words=_WORDS, block=32 * self.warps, grid=self.grid, crs=self.crs
        )
        launch = replace(launch, check_api_calls=self.check_calls)
        return launch if self.handler is None else with_handler(launch, *self.handler)


@dataclass
class Cases:
    """A collection of cases. The name of a case is that of its script."""

    cases: dict[str, TrapCase] = field(default_factory=dict)

    def case(
        self,
        kernel: Sequence[str],
        handler: Sequence[str] | None = None,
        *,
        warps: int = 1,
        grid: int = 1,
        crs: int = 1024,
        ends: str = "ok",
        report_mask: int = REPORT_MASK_RESET,
        check_calls: bool = False,
    ) -> Callable[[Script], Script]:
        """A decorator that adds a case with the decorated script."""

        def enter(script: Script) -> Script:
            name = script.__name__  # pyright: ignore[reportAttributeAccessIssue]
            assert name not in self.cases, name
            self.cases[name] = TrapCase(
                name, script, kernel, handler, warps, grid, crs, ends, report_mask, check_calls
            )
            return script

        return enter

    def illegal(
        self, name: str, *kernel: str, error: WarpError = WarpError.ILLEGAL_INSTR_ENCODING
    ) -> None:
        """Adds a case without a handler in which the last of these lines has the error."""

        async def script(d: Debugger) -> None:
            await d.lock_down()
            await d.see_error(error, 0, address(len(kernel) - 1))

        script.__name__ = name
        self.case((*kernel, "EXIT"), ends="error")(script)
