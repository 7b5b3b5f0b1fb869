"""The context switch in a launch: the image of a grid, and the launch that continues from it."""

from dataclasses import dataclass, replace
from enum import IntEnum

from rtl.isa.barriers import BARRIERS
from sim.launch import DRIVER_WORDS, Launch, with_trap_handler
from sim.launch.memory import Memory
from sim.machine.host import HardwareHost
from sim.toolchain.module import ProgramError

from .save_area import RECORD, RECORD_BYTES, SavedWarp, ThreadArea
from .source import assembled, halves

__all__ = [
    "ContextCommand",
    "ContextImage",
    "WarpContext",
    "install_context_switch",
    "resumed",
    "save_grid",
]

_WORD_BYTES = 4
_MOST_CTAS = 1 << 16
_REGISTERS = 24
"""Of a thread, that the handler works with."""
_PATIENCE = 1000
"""Cycles between two looks at a CTA that is being started, and for warps that leave the handler."""
_HANDLER, _RESUME = "context_switch", "resume"


class ContextCommand(IntEnum):
    """The image's first word: a command for the handler."""

    SAVE = 1
    RESTORE = 2


class WarpContext(IntEnum):
    """The STATE of a warp's record."""

    NEW = 0
    """It has not begun, or runs for the first time."""
    RESUMED = 1
    """It has been saved, and runs again."""
    SAVED = 2
    FINISHED = 3
    """It has ended."""


_QUAD_BYTES = 4 * _WORD_BYTES
_CTA = {
    "BARRIERS": 0,
    "TICKET": BARRIERS * _WORD_BYTES,
    "SHARED": BARRIERS * _WORD_BYTES + _QUAD_BYTES,
}
"""A CTA's part of the image: its barriers, which command a warp has taken already
for all of the CTA, its shared memory."""


@dataclass(frozen=True)
class ContextImage:
    """Where the warps of a grid are saved. A word with the command is at ``header``, a record of each warp of the grid
    from ``records`` on, CTA after CTA, and a part of ``cta_bytes`` for each CTA from ``ctas`` on.

    ``launch`` has the handler; ``resume`` is the pc at which warps begin that are to be restored. ``regions`` are the
    names of the memory that belongs to the grid and not to one launch of it.
    """

    launch: Launch
    threads: ThreadArea
    header: int
    records: int
    ctas: int
    cta_bytes: int
    resume: int
    regions: frozenset[str]

    def set_command(self, memory: Memory, command: ContextCommand) -> None:
        """Sets the handler's command for the next warps that trap."""
        memory.write_number(self.header, _WORD_BYTES, command)

    def warp(self, memory: Memory, cta: int, number: int) -> SavedWarp:
        """A warp of a CTA of the grid; its STATE is whether it is saved."""
        record = self.records + (cta * self.launch.warps + number) * RECORD_BYTES
        return SavedWarp(memory, self.launch, self.threads, record)

    def barrier(self, memory: Memory, cta: int, number: int) -> int:
        """A saved barrier of a CTA, in B2R's format."""
        part = self.ctas + cta * self.cta_bytes
        return memory.read_number(part + _CTA["BARRIERS"] + number * _WORD_BYTES, _WORD_BYTES)

    def is_over(self, memory: Memory) -> bool:
        """Whether all warps of the grid have ended."""
        return all(
            self.warp(memory, *divmod(number, self.launch.warps)).word("STATE")
            == WarpContext.FINISHED
            for number in range(_cta_count(self.launch) * self.launch.warps)
        )

    def note_started(self, memory: Memory, ctas: int) -> None:
        """Records in the image the number of CTAs that have started, when all running ones are
        saved: CTAs among these that are not saved have ended. CTAs start in order.
        """
        for number in range(ctas * self.launch.warps):
            warp = self.warp(memory, *divmod(number, self.launch.warps))
            if warp.word("STATE") < WarpContext.SAVED:
                warp.set_word("STATE", WarpContext.FINISHED)


def _cta_count(launch: Launch) -> int:
    x, y, z = launch.grid
    return x * y * z


def install_context_switch(launch: Launch) -> ContextImage:
    """The launch with the context switch as its trap handler, and an empty image. A memory serves one handler.

    ProgramError for a launch without stacks in memory, and for one of more than 65,536 CTAs.
    """
    if _cta_count(launch) > _MOST_CTAS:
        raise ProgramError(
            f"kernel {launch.kernel.name}: a context switch takes grids of up to {_MOST_CTAS} CTAs, not "
            f"{_cta_count(launch)}"
        )
    launch, threads = ThreadArea.reserved(launch, _REGISTERS)
    cta_bytes = _CTA["SHARED"] + launch.shared
    header = launch.memory.allocate("context", _WORD_BYTES)
    records = launch.memory.allocate(
        "context of warps", _cta_count(launch) * launch.warps * RECORD_BYTES
    )
    ctas = launch.memory.allocate("context of CTAs", _cta_count(launch) * cta_bytes)
    numbers = {
        **threads.numbers,
        **RECORD,
        **DRIVER_WORDS,
        **_CTA,
        **halves("IMAGE", header),
        **halves("RECORDS", records),
        **halves("CTAS", ctas),
        **{each.name: each.value for kind in (ContextCommand, WarpContext) for each in kind},
        "WARPS": launch.warps,
        "RECORD_SHIFT": RECORD_BYTES.bit_length() - 1,
        "CTA_BYTES": cta_bytes,
        "BARRIER_COUNT": launch.barriers,
        "SHARED_BYTES": launch.shared,
        "ENTRY": launch.entry,
    }
    handler = assembled(_HANDLER, (_HANDLER, "registers", _RESUME), numbers)
    launch = with_trap_handler(launch, handler, _HANDLER)
    assert launch.trap_handler is not None
    resume = launch.trap_handler + handler.kernel(_RESUME).entry - handler.kernel(_HANDLER).entry
    return ContextImage(
        launch, threads, header, records, ctas, cta_bytes, resume, frozenset(launch.memory.regions)
    )


def resumed(image: ContextImage, memory: Memory) -> ContextImage:
    """A launch that continues from what was saved to ``memory``, the memory of the machine that ran
    the image's launch.

    It has a separate memory. The blocks of local memory of the old machine stay in it, where they
    were: the warps take them over. The image of the new launch is the same; it can be saved to it
    again.
    """
    memory = memory.copy()
    for name in set(memory.regions) - image.regions:
        memory.regions[f"{name} of context {len(memory.regions)}"] = memory.regions.pop(name)
    image.set_command(memory, ContextCommand.RESTORE)
    launch = replace(image.launch, memory=memory, entry=image.resume)
    return replace(image, launch=launch, regions=frozenset(memory.regions))


async def save_grid(host: HardwareHost, image: ContextImage, cycles: int) -> bool:
    """Saves what runs, and leaves the machine stopped and empty. Returns whether there is anything
    left to continue: a grid may end by itself before the stop takes effect. TimeoutError when that
    takes longer than so many cycles.
    """
    end = host.cycles + cycles
    for memory in (
        host.memory,
        image.launch.memory,
    ):  # the machine's, and that of one that follows it
        image.set_command(memory, ContextCommand.SAVE)
    await host.modify("DBGR_CONTROL0", STOP_TRIGGER=1)
    while host.cycles < end and not host.failed:
        await host.run(min(_PATIENCE, end - host.cycles))
        if not host.locked_down:
            continue
        if not await host.read("WARP_VALID_MASK") | await host.read("WARP_VALID_MASK_1"):
            image.note_started(host.memory, await host.read("ctas"))
            return not image.is_over(host.memory)
        # A CTA is just being started, or warps that have been restored cannot leave the handler while there is a stop.
        await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
        await host.run(min(_PATIENCE, end - host.cycles))
        await host.modify("DBGR_CONTROL0", STOP_TRIGGER=1)
    raise TimeoutError(f"the warps have not ended within {cycles} cycles")
