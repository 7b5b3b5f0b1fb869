"""The context switch of a launch: the image of a grid, and the launch that continues from it."""

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
"""Number of a thread's registers that the handler uses."""
_PATIENCE = 1000
"""Cycles between two checks of a CTA that is being started, and of warps that leave the handler."""
_HANDLER, _RESUME = "context_switch", "resume"


class ContextCommand(IntEnum):
    """The image's first word: a command for the handler."""

    SAVE = 1
    RESTORE = 2


class WarpContext(IntEnum):
    """The word STATE of a warp's record."""

    NEW = 0
    """The warp has not begun, or runs for the first time."""
    RESUMED = 1
    """The warp was saved, and runs again."""
    SAVED = 2
    FINISHED = 3
    """The warp has ended."""


_QUAD_BYTES = 4 * _WORD_BYTES
_CTA = {
    "BARRIERS": 0,
    "TICKET": BARRIERS * _WORD_BYTES,
    "SHARED": BARRIERS * _WORD_BYTES + _QUAD_BYTES,
}
"""A CTA's part of the image: its barriers; the last command that a warp has executed for the whole
CTA; its shared memory.
"""


@dataclass(frozen=True)
class ContextImage:
    """The addresses at which the warps of a grid are saved.

    Attributes:
        launch: The launch with the handler.
        threads: The handler's part of each thread's local memory.
        header: Address of the word with the command.
        records: Address of the records, one for each warp of the grid, CTA after CTA.
        ctas: Address of the parts of CTAs.
        cta_bytes: Size of a CTA's part in bytes.
        resume: Pc at which warps begin that are to be restored.
        regions: Names of the regions that belong to the grid and not to one of its launches.
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
        """Returns a warp of a CTA of the grid; its STATE says whether it is saved."""
        record = self.records + (cta * self.launch.warps + number) * RECORD_BYTES
        return SavedWarp(memory, self.launch, self.threads, record)

    def barrier(self, memory: Memory, cta: int, number: int) -> int:
        """Returns a saved barrier of a CTA, in B2R's format."""
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
        """Records in the image the number of CTAs that have started; call it when all running ones
        are saved.

        CTAs start in order, so that CTAs among these that are not saved have ended.
        """
        for number in range(ctas * self.launch.warps):
            warp = self.warp(memory, *divmod(number, self.launch.warps))
            if warp.word("STATE") < WarpContext.SAVED:
                warp.set_word("STATE", WarpContext.FINISHED)


def _cta_count(launch: Launch) -> int:
    x, y, z = launch.grid
    return x * y * z


def install_context_switch(launch: Launch) -> ContextImage:
    """Returns the launch with the context switch as its trap handler, and an empty image. A memory
    serves one handler.

    Raises ProgramError for a launch without stacks in memory, and for one of more than 65,536 CTAs.
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
    """Returns a launch that continues from the state saved in ``memory``, the memory of the machine
    that ran the image's launch.

    It has a separate memory, in which the blocks of local memory of the old machine keep their
    addresses: the restored warps use them. The new launch has the same image, and can be saved to
    it again.
    """
    memory = memory.copy()
    for name in set(memory.regions) - image.regions:
        memory.regions[f"{name} of context {len(memory.regions)}"] = memory.regions.pop(name)
    image.set_command(memory, ContextCommand.RESTORE)
    launch = replace(image.launch, memory=memory, entry=image.resume)
    return replace(image, launch=launch, regions=frozenset(memory.regions))


async def save_grid(host: HardwareHost, image: ContextImage, cycles: int) -> bool:
    """Saves the running grid, and leaves the machine stopped and empty.

    Returns whether there is anything to continue: a grid may end by itself before the stop takes
    effect. Raises TimeoutError if it takes more than ``cycles``.
    """
    end = host.cycles + cycles
    for memory in (
        host.memory,
        image.launch.memory,
    ):  # The machine's memory, and that of the warp model that follows it
        image.set_command(memory, ContextCommand.SAVE)
    await host.modify("DBGR_CONTROL0", STOP_TRIGGER=1)
    while host.cycles < end and not host.failed:
        await host.run(min(_PATIENCE, end - host.cycles))
        if not host.locked_down:
            continue
        if not await host.read("WARP_VALID_MASK") | await host.read("WARP_VALID_MASK_1"):
            image.note_started(host.memory, await host.read("ctas"))
            return not image.is_over(host.memory)
        # A CTA is just being started, or a stop prevents restored warps from leaving the handler.
        await host.modify("DBGR_CONTROL0", STOP_TRIGGER=0)
        await host.run(min(_PATIENCE, end - host.cycles))
        await host.modify("DBGR_CONTROL0", STOP_TRIGGER=1)
    raise TimeoutError(f"the warps have not ended within {cycles} cycles")
