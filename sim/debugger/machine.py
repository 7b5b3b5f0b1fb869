"""A machine under the debugger: warps stop at breakpoints, are inspected, step, and continue."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from rtl.isa.control_code import instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS, GlobalError, trap_bit
from rtl.isa.table import find
from rtl.isa.trap_status import TRAP_REASONS, WarpStatus
from rtl.layouts import LaunchRejection
from sim.firmware.save_area import SavedWarp
from sim.firmware.trap_handler import SaveArea, WakeCommand
from sim.machine.host import HardwareHost
from sim.report.surroundings import before

from . import driver
from .breakpoints import REASON, Breakpoints
from .errors import DebuggerError

__all__ = ["DebuggedMachine", "MachineState", "StopReason", "address_of"]

_FOREVER = 1 << 62
_WAITS_FOR_OTHERS = "BAR"


def address_of(warp: SavedWarp) -> int:
    """Returns the address of the instruction at which a stopped warp is."""
    return instruction_address(warp.pc)


class MachineState(Enum):
    """State of the machine, as the debugger distinguishes it."""

    HELD = "no warp has started yet"
    RUNNING = "the grid runs"
    STOPPED = "all warps are stopped"
    OVER = "the grid is over"


@dataclass(frozen=True)
class StopReason:
    """Why a warp stopped, in order of priority: an error, traps of the program, the number of a
    breakpoint, a step; otherwise because other warps stopped.
    """

    error: WarpError = WarpError.NONE
    reasons: tuple[int, ...] = ()
    breakpoint: int | None = None
    stepped: bool = False

    def __str__(self) -> str:
        if self.error is not WarpError.NONE:
            return f"error {self.error.name}"
        causes = [f"BPT.TRAP {' '.join(map(str, self.reasons))}"] if self.reasons else []
        if self.breakpoint is not None:
            causes.append(f"breakpoint {self.breakpoint}")
        if causes:
            return ", ".join(causes)
        return "stepped" if self.stepped else "stopped"

    @property
    def stopped_by_itself(self) -> bool:
        """Whether the warp itself caused the stop, without a request to stop."""
        return self.error is not WarpError.NONE or bool(self.reasons) or self.breakpoint is not None


class DebuggedMachine:
    """The operations of a debugger on a grid, through the registers and the trap handler's save
    area.

    Parameters:
        area: The save area of an installed trap handler.
        watch: Called from time to time with the number of cycles that have passed; returns whether
            the user requests a stop.

    Attributes:
        ran_slots: Warps that have run since they were last inspected.
        traps: Reasons of the program's own BPT.TRAPs so far. Hits of breakpoints clear reason 1 in the registers.
    """

    def __init__(
        self,
        host: HardwareHost,
        area: SaveArea,
        breakpoints: Breakpoints,
        watch: Callable[[int], bool],
    ) -> None:
        self.host, self.area, self.breakpoints = host, area, breakpoints
        self.memory = host.memory
        self.state = MachineState.RUNNING
        self.ran_slots: set[int] = set()
        self.traps: set[int] = set()
        self._watch = watch
        self._reported: dict[int, int] = {}
        """Warps at a breakpoint that was reported to the user, with its address: they step over it
        next.
        """
        self._parked: set[int] = set()
        """Warps at a breakpoint on a barrier, held there while the other warps that they wait for
        run.
        """

    # State.

    @property
    def warps(self) -> dict[int, SavedWarp]:
        """The stopped warps, by slot."""
        return self.area.warps(self.memory) if self.state is MachineState.STOPPED else {}

    def stop_reason(self, slot: int, warp: SavedWarp) -> StopReason:
        """Returns why a warp stopped."""
        status = WarpStatus.from_bits(warp.word("STATUS"))
        at = address_of(warp)
        number = (
            self.breakpoints.number(at)
            if self._reported.get(slot) == at and at in self.breakpoints
            else None
        )
        reasons = tuple(
            reason for reason in TRAP_REASONS if status.reasons >> reason - TRAP_REASONS.start & 1
        )
        if warp.word("COMMAND") == WakeCommand.RELOAD:  # The trap of the breakpoint itself
            reasons = tuple(reason for reason in reasons if reason != REASON)
        error = WarpError(status.error) if status.failed else WarpError.NONE
        return StopReason(error, reasons, number, bool(status.stepped))

    def reasons(self) -> dict[int, StopReason]:
        """Returns the stop reasons of warps that have run and stopped by themselves."""
        found = {
            slot: self.stop_reason(slot, warp)
            for slot, warp in self.warps.items()
            if slot in self.ran_slots
        }
        return {slot: why for slot, why in found.items() if why.stopped_by_itself}

    async def rejection(self) -> LaunchRejection:
        """Returns why the machine rejected the launch."""
        return LaunchRejection(await self.host.field("STATUS", "REJECTION"))

    async def registers(self) -> dict[str, int]:
        """Returns the SM's registers by name."""
        return {name: await self.host.read(name) for name in SM_REGISTERS}

    # Breakpoints. The caches are invalidated, since they may hold the old code.

    async def plant(self) -> None:
        """Inserts breakpoints into the program."""
        self.breakpoints.plant(self.memory)
        await driver.invalidate_caches(self.host)

    async def lift(self) -> None:
        """Removes breakpoints from the program."""
        self.breakpoints.lift(self.memory)
        await driver.invalidate_caches(self.host)

    # Stopping and running.

    async def hold(self) -> None:
        """Attaches before the first warp starts."""
        await driver.attach(self.host)
        if not await driver.stop_all(self.host):
            raise DebuggerError("the machine does not lock down")
        self.state = MachineState.HELD
        await self._look()

    async def stop(self) -> None:
        """Stops all warps, if they run."""
        if self.state is not MachineState.RUNNING:
            return
        if await driver.stop_all(self.host):
            await self._arrive()
        elif not await self._look():
            raise DebuggerError(f"the machine does not lock down in {driver.PATIENCE:,} cycles")

    async def go(self, cycles: int | None = None) -> bool:
        """Runs warps until one stops by itself, the grid has ended, the user interrupts, or
        ``cycles`` have passed.

        Warps at a breakpoint step over it first. Returns whether the user interrupted.
        """
        end = _FOREVER if cycles is None else self.host.cycles + cycles
        while True:
            if self.state is MachineState.STOPPED and await self._leave_breakpoints():
                return False
            await self._release()
            interrupted = await self._run(end)
            if interrupted:
                await self.stop()
            if (
                interrupted
                or self.state is not MachineState.STOPPED
                or not self._parked
                or self.reasons()
            ):
                return interrupted

    async def step(self, slots: set[int]) -> set[int]:
        """Has these warps execute one instruction each.

        A warp at a breakpoint that was reported to the user executes the instruction that it
        replaces. Returns the warps that could not step: they wait at a barrier for others.
        """
        pcs = {slot: address_of(warp) for slot, warp in self.warps.items() if slot in slots}
        if at_breakpoints := self._at_breakpoints() & slots:
            await self._step_over(at_breakpoints)
        if rest := (slots - at_breakpoints) & self.warps.keys():
            await self._step(rest)
        waiting = {
            slot
            for slot, warp in self.warps.items()
            if pcs.get(slot) == address_of(warp) and self._waits(address_of(warp))
        }
        self.ran_slots = slots - waiting
        return waiting

    async def detach(self, cycles: int | None = None) -> bool:
        """Removes all breakpoints and runs the machine without a debugger until its grid has ended
        or it locks down.

        Returns whether the user interrupted.
        """
        await self.lift()
        self._reported.clear()
        self._parked.clear()
        await driver.detach(self.host)
        await driver.resume(self.host)
        self.state = MachineState.RUNNING
        return await self._run(_FOREVER if cycles is None else self.host.cycles + cycles)

    # Implementation.

    def _at_breakpoints(self) -> set[int]:
        """Returns the warps that must step over a breakpoint before they continue."""
        warps = self.warps
        return {
            slot
            for slot, address in self._reported.items()
            if slot in warps and address in self.breakpoints and address_of(warps[slot]) == address
        }

    async def _leave_breakpoints(self) -> bool:
        """Steps over breakpoints that were reported to the user; returns whether there is a new
        stop to report.
        """
        reported = {slot: self._reported[slot] for slot in self._at_breakpoints()}
        if not reported:
            return False
        await self._step_over(set(reported))
        if self.state is MachineState.OVER:
            return True
        self.ran_slots = {
            slot
            for slot, address in reported.items()
            if self._reported.get(slot) != address or not self._waits(address)
        }
        return bool(self.reasons())

    def _waits(self, address: int) -> bool:
        """Whether a warp may be unable to step over the instruction at an address: at a barrier it
        waits for others.
        """
        form = find(self.breakpoints.word(self.memory, address))
        return form is not None and form.name == _WAITS_FOR_OTHERS

    async def _release(self) -> None:
        """Resumes all warps; those at a barrier only if there are no others, so that they stay at
        it.
        """
        if self.state in (MachineState.RUNNING, MachineState.OVER):
            return
        warps = self.warps.keys()
        free = warps - self._at_breakpoints()
        self._parked = set(warps - free) if free else set()
        if (
            self._parked or self.host.remote
        ):  # Warps that start, and are paused, before they are woken stay so
            await self.host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
            await driver.wake(self.host, sum(1 << slot for slot in free or warps))
        else:
            await driver.resume(self.host)
        self._reported = {slot: self._reported[slot] for slot in self._parked}
        self.state = MachineState.RUNNING

    async def _run(self, end: int) -> bool:
        """Runs until an event ends the run; returns whether the user interrupted."""
        interrupted = False

        async def reached(host: HardwareHost) -> bool:
            nonlocal interrupted
            interrupted = self._watch(host.cycles)
            return interrupted or await self._happened(host)

        await driver.wait(self.host, reached, max(0, end - self.host.cycles))
        if not interrupted and await self._happened(self.host):
            await self._settle()
        return interrupted and self.state is MachineState.RUNNING

    async def _happened(self, host: HardwareHost) -> bool:
        return (
            await driver.locked_down(host)
            or await driver.grid_over(host)
            or await driver.all_paused(host)
        )

    async def _look(self) -> bool:
        """Whether the grid has ended."""
        if await driver.grid_over(self.host):
            self.state = MachineState.OVER
        return self.state is MachineState.OVER

    async def _settle(self) -> None:
        """Holds the machine stopped after a stop."""
        if await self._look():
            return
        if not await driver.locked_down(self.host):
            await driver.stop_all(self.host)
        await self._arrive()

    async def _step_over(self, slots: set[int]) -> None:
        """Like :meth:`_step`, with breakpoints removed from the program."""
        await self.lift()
        await self._step(slots, lifted=True)
        await self.plant()

    async def _step(self, slots: set[int], *, lifted: bool = False) -> None:
        """Has each of these warps execute one instruction. A CTA that starts meanwhile is stopped,
        too.
        """
        started = await self.host.read("ctas")

        async def reached(host: HardwareHost) -> bool:
            return (
                await self._happened(host)
                or self._watch(host.cycles)
                or await host.read("ctas") != started
            )

        await driver.single_step(self.host, sum(1 << slot for slot in slots))
        await driver.wait(self.host, reached)
        await self.host.modify("DBGR_CONTROL0", SINGLE_STEP_MODE=0)
        if await self._look():
            return
        if not await driver.locked_down(self.host):
            await driver.stop_all(self.host)
        await self._arrive(stepped=slots, lifted=lifted)

    async def _arrive(self, stepped: Collection[int] = (), *, lifted: bool = False) -> None:
        """After lock-down: sets warps that hit a breakpoint back to the instruction that it
        replaces.
        """
        self.state = MachineState.STOPPED
        if await self._look():
            return
        warps, reported = self.warps, {}
        for slot, warp in warps.items():
            pc, address = address_of(warp), before(warp.pc)
            if not lifted and self._hit(warp) and address in self.breakpoints:
                warp.pc = reported[slot] = address
                warp.set_word("COMMAND", WakeCommand.RELOAD)
            elif pc in self.breakpoints and (
                slot in stepped
                or self._reported.get(slot) == pc
                or self.stop_reason(slot, warp).reasons  # stopped by itself: one stop for both
            ):
                reported[slot] = pc
        self._reported = reported
        self.traps.update(*(self.stop_reason(slot, warp).reasons for slot, warp in warps.items()))
        self.ran_slots = set(stepped) or warps.keys() - self._parked
        if not warps and not await driver.live_warps(self.host):
            self.state = MachineState.HELD
        await self._acknowledge()

    def _hit(self, warp: SavedWarp) -> bool:
        """Whether a trap with the reason of breakpoints was executed since the warp last ran."""
        status = WarpStatus.from_bits(warp.word("STATUS"))
        return (
            bool(status.reasons >> REASON - TRAP_REASONS.start & 1)
            and warp.word("COMMAND") == WakeCommand.LEAVE
        )

    async def _acknowledge(self) -> None:
        """Clears the events that the debugger itself has caused from the error status, and no
        others.
        """
        bits = 1 << GlobalError.BPT_PAUSE.value | 1 << GlobalError.SINGLE_STEP_COMPLETE.value
        if not any(self.stop_reason(slot, warp).reasons for slot, warp in self.warps.items()):
            bits |= 1 << trap_bit(REASON)
        await self.host.write("HWW_GLOBAL_ESR", bits)
        if not await self.host.field("HWW_WARP_ESR", "ERROR") and not await self.host.field(
            "HWW_GLOBAL_ESR", "TRAP_REASONS"
        ):
            await self.host.write("HWW_WARP_ESR", 0)
