"""A user's session: a program, its breakpoints, the selected warp, and the machine while the grid
runs.
"""

from collections.abc import Collection

from rtl.isa.errors import WarpError
from rtl.layouts import LaunchRejection
from sim.firmware.save_area import SavedWarp
from sim.firmware.trap_handler import SaveArea
from sim.machine.host import HardwareHost
from sim.report.output import output_of
from sim.report.run import buffer_lines

from .addresses import FunctionAddresses
from .breakpoints import Breakpoints
from .errors import DebuggerError
from .machine import DebuggedMachine, MachineState, address_of
from .views import Disassembly, error_lines, threads_of
from .watch import Watch

__all__ = ["DebuggerSession"]


class DebuggerSession:
    """The state on which commands operate. Most of it exists only while there is a machine.

    Parameters:
        area: The save area of the launch, with its trap handler.
        watch: The user interface while the machine runs.

    Attributes:
        warp_number: The selected warp slot.
        thread: The selected thread of the warp.
        starts: Whether the user has requested another grid, which starts at once.
        cycles: Limit of the cycles for which it runs, None without one.
        leaves: Whether the user requests no other grid.
    """

    def __init__(self, area: SaveArea, functions: FunctionAddresses, watch: Watch) -> None:
        self.area, self.functions = area, functions
        self.breakpoints = Breakpoints(area.launch.program_base)
        self.warp_number = self.thread = 0
        self.starts = self.leaves = False
        self.cycles: int | None = None
        self._watch = watch
        self._machine: DebuggedMachine | None = None
        self._shown = 0

    async def begin(self, host: HardwareHost) -> None:
        """Attaches to a launched grid before it starts."""
        self.breakpoints.forget_memory()
        self._shown = 0
        self._machine = DebuggedMachine(host, self.area, self.breakpoints, self._watch.look)
        await self._machine.hold()
        await self._machine.plant()

    async def restart(self) -> list[str]:
        """Starts another grid if the user has requested one; returns the text to print."""
        if not self.starts:
            return []
        self.starts = False
        return await self.outcome(interrupted=await self.machine.go(self.cycles))

    @property
    def machine(self) -> DebuggedMachine:
        """The machine."""
        assert self._machine is not None
        return self._machine

    @property
    def code(self) -> Disassembly:
        """The program's disassembly."""
        return Disassembly(self.breakpoints, self.functions, self.machine.memory)

    # Selection.

    def stopped(self) -> DebuggedMachine:
        """Returns the machine with its warps stopped; DebuggerError if they are not."""
        machine = self.machine
        hints = {
            MachineState.HELD: "run starts it",
            MachineState.RUNNING: "stop stops it",
            MachineState.OVER: "run starts it again",
        }
        if machine.state in hints:
            raise DebuggerError(f"{machine.state.value}; {hints[machine.state]}")
        return machine

    def warps(self) -> dict[int, SavedWarp]:
        """Returns all stopped warps by slot; DebuggerError if there are none."""
        return self.stopped().warps

    def warp(self) -> SavedWarp:
        """Returns the selected warp; DebuggerError if it is not stopped."""
        warps = self.warps()
        if self.warp_number not in warps:
            raise DebuggerError(
                f"there is no warp {self.warp_number}; there are {_listed(warps) or 'none'}"
            )
        return warps[self.warp_number]

    def look_at(self, number: int) -> None:
        """Selects another warp, and its first active thread."""
        self.warp_number = number
        active = threads_of(self.warp().masks.active)
        self.thread = active[0] if active else 0

    def _refocus(self) -> None:
        """Selects a warp that caused the stop, else the warp selected before, else the first."""
        warps = self.machine.warps
        if not warps:
            return
        choice = list(self.machine.reasons() or warps)
        if self.warp_number not in choice:
            self.look_at(choice[0])
        elif not warps[self.warp_number].live >> self.thread & 1:
            self.look_at(self.warp_number)

    # Reports.

    async def outcome(
        self,
        *,
        interrupted: bool = False,
        stepped: Collection[int] = (),
        waiting: Collection[int] = (),
    ) -> list[str]:
        """Returns text that says why the machine stopped after it was resumed."""
        machine = self.machine
        self._watch.stopped()
        lines = self._printed()
        match machine.state:
            case MachineState.OVER:
                return lines + await self._end()
            case MachineState.RUNNING:
                return [*lines, f"the grid runs, {machine.host.cycles:,} cycles so far"]
            case MachineState.HELD:
                return [*lines, "no warp lives"]
        self._refocus()
        warps = machine.warps
        if interrupted:
            lines.append("interrupted")
        if ended := sorted(set(stepped) - warps.keys()):
            lines.append(f"{_named(ended)} ended")
        if waiting:
            lines.append(f"at a barrier that other warps have not reached: {_named(waiting)}")
        for why, slots in self._reasons().items():
            lines.append(f"{why}: {_named(slots)}")
        if not warps:
            return [*lines, "warps are stopped, but the trap handler could not save them"]
        if any(why.error is not WarpError.NONE for why in machine.reasons().values()):
            lines += error_lines(await machine.registers(), self.code)
        pc = address_of(self.warp())
        line = self.code.line(pc, "->")
        return [
            *lines,
            f"warp {self.warp_number} at {self.code.location(pc)}",
            *([] if line in lines else [line]),
        ]

    def _printed(self) -> list[str]:
        """Returns what the kernel has printed, and which assertions have failed, since the last
        call.
        """
        output = output_of(self.machine.memory, self.area.launch.output)
        new = output.text[self._shown :]
        self._shown = len(output.text)
        return [*new.splitlines(), *output.lines()]

    def _reasons(self) -> dict[str, list[int]]:
        """Returns the warps that stopped by themselves, by reason."""
        found: dict[str, list[int]] = {}
        for slot, why in self.machine.reasons().items():
            found.setdefault(str(why), []).append(slot)
        return found

    async def _end(self) -> list[str]:
        """Returns text on how the grid has ended."""
        machine = self.machine
        if (rejection := await machine.rejection()) is not LaunchRejection.NONE:
            return [f"the machine does not take the launch: {rejection.name}"]
        lines = [
            f"the grid is over, {await machine.host.read('instructions'):,} instructions in "
            f"{await machine.host.read('cycles'):,} cycles"
        ]
        error_text = error_lines(
            await machine.registers(), self.code, ended=True, stopped_at=machine.traps
        )
        lines += [line for line in error_text if line != "no errors"]
        return lines + buffer_lines(self.area.launch, machine.memory)


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _named(numbers: Collection[int]) -> str:
    return f"warp{'s' * (len(numbers) > 1)} {_listed(numbers)}"
