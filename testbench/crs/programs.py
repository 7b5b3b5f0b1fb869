"""The stack operations of the kernels: the control flow of their warps, as the warp model retires
it.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from random import Random

from rtl.isa.tokens import CRS_GRANULE, TOKEN_BYTES
from rtl.layouts import StackOperation, ThreadCode
from rtl.params import WARP_THREADS
from sim.launch import Launch
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement, StackToken, WarpMasks
from sim.model.warp.unwind import DISABLED_BY
from testbench.crs.reference import Outcome, Request, StackReference
from testbench.crs.steps import (
    Codes,
    Shown,
    Source,
    Step,
    WarpStack,
    code_for,
    codes_of,
    whole_lines,
)
from testbench.words import form_of

_LEAVES = {
    "SYNC": ThreadCode.NONE,
    "BRK": ThreadCode.BREAK,
    "CONT": ThreadCode.CONTINUE,
    "RET": ThreadCode.RETURN,
    "EXIT": ThreadCode.EXIT,
    "LONGJMP": ThreadCode.LONGJMP,
    "KIL": ThreadCode.KILLED,
}
"""The code of the threads that each instruction removes from the active mask."""
_CALLS = ("CAL", "JCAL")
_PATIENCE = 200
"""Instructions without a stack operation after which the model switches to another warp."""
_WRITE_BACK_CHANCE = 0.03


def _codes(masks: WarpMasks) -> Codes:
    """The code of each thread, from the masks of a warp."""
    disabled: Mapping[ThreadCode, int] = {
        code_for(kind): getattr(masks, name) for kind, name in DISABLED_BY.items()
    }
    return codes_of({**disabled, ThreadCode.KILLED: masks.killed}, rest=ThreadCode.NONE)


def _name(record: Retirement) -> str:
    return form_of(record.word).name


def requests_of(record: Retirement) -> list[Request]:
    """The stack requests of a retired instruction, in order."""
    requests = []
    for index, token in enumerate(record.pushed):
        operation = StackOperation.PUSH
        if token.counted:
            operation = (
                StackOperation.CALL if _name(record) in _CALLS else StackOperation.PREPARE_CALL
            )
        requests.append(
            Request(
                operation,
                token.kind,
                token.pc,
                token.mask,
                _codes(record.after),
                pair=index + 1 < len(record.pushed),
            )
        )
    if record.popped or record.terminated:
        name, before = _name(record), _codes(record.before)
        if name in _LEAVES:
            left = tuple(
                _LEAVES[name] if record.before.active >> thread & 1 else before[thread]
                for thread in range(WARP_THREADS)
            )
            requests.append(Request(StackOperation.UNWIND, codes=left))
        else:
            gone = (ThreadCode.EXIT, ThreadCode.KILLED)
            requests.append(
                Request(
                    StackOperation.POP_QUAD,
                    codes=tuple(code if code in gone else ThreadCode.NONE for code in before),
                )
            )
    return requests


class _Program:
    """One run of a kernel, on as many warps of the hardware as its CTA needs."""

    def __init__(self, name: str, launch: Launch, limit: int) -> None:
        self.name = name
        self.machine = WarpModel(launch, warps=launch.warps)
        self.left = limit

    @property
    def over(self) -> bool:
        """Whether the program has ended or has reached the limit of requests."""
        return self.left <= 0 or self.machine.error_status is not None or not self.machine.live


class ProgramQueue:
    """Runs programs on the warps of the stack, as many at once as fit.

    Parameters:
        programs: Names and launches, in the order in which they start.
        warps: Number of hardware warps; at least as many as a CTA has.
        random: Random numbers for the times of write-backs.
        limit: Requests after which a program is stopped.

    Attributes:
        compared: Retired instructions whose outcome was compared.
        written_back: Write-backs whose bytes were compared.
    """

    def __init__(
        self, programs: Iterable[tuple[str, Launch]], warps: int, random: Random, limit: int
    ) -> None:
        self._waiting = deque(_Program(name, launch, limit) for name, launch in programs)
        self._random = random
        self._free = set(range(warps))
        self._places: dict[int, tuple[_Program, int]] = {}
        self.compared = 0
        self.written_back = 0

    def source(self, stack: WarpStack) -> Source:
        """The steps of one hardware warp."""
        while True:
            self._begin()
            if stack.warp in self._places:
                program, slot = self._places[stack.warp]
                yield from self._play(stack, program, slot)
                del self._places[stack.warp]
                self._free.add(stack.warp)
            elif self._waiting:
                yield None
            else:
                return

    def _begin(self) -> None:
        """Assigns free warps to the next programs, as long as there are enough."""
        while self._waiting and self._waiting[0].machine.slots <= len(self._free):
            program = self._waiting.popleft()
            for slot in range(program.machine.slots):
                warp = min(self._free)
                self._free.remove(warp)
                self._places[warp] = program, slot

    def _play(self, stack: WarpStack, program: _Program, slot: int) -> Source:
        """The steps of one warp slot of a program, CTA after CTA."""
        machine, running = program.machine, None
        idle = 0
        while not program.over:
            warp = machine.warps[slot]
            if warp is None or warp.barrier is not None or idle >= _PATIENCE:
                idle = 0
                yield None
                continue
            if warp is not running:
                running = warp
                launch = machine.launch
                local = launch.local * WARP_THREADS // CRS_GRANULE
                size = launch.crs // CRS_GRANULE
                base = stack.allocate(local + size)
                reference = StackReference(
                    size, launch.check_api_calls, base, on_chip=stack.on_chip
                )
                yield stack.launch_on(reference, local)
                continue
            record = machine.retire(slot)
            requests = requests_of(record)
            idle = 0 if requests else idle + 1
            program.left -= len(requests)
            before, outcome = list(stack.reference.tokens), None
            for request in requests:
                outcome = yield Step(
                    request,
                    before=Shown(record.pc, record.before.active),
                    after=Shown(record.next_pc, record.after.active),
                )
            if outcome is not None:
                _compare(program.name, record, outcome, before, stack.reference.tokens)
                self.compared += 1
            if record.pushed and self._random.random() < _WRITE_BACK_CHANCE:
                yield stack.ask(StackOperation.WRITE_BACK)
                warp.stack.write_back()
                size = whole_lines(stack.depth) * TOKEN_BYTES
                where = f"{program.name}: a stack of {stack.depth} tokens in memory"
                assert stack.memory.read(stack.region, size) == machine.memory.read(
                    warp.stack.region, size
                ), where
                self.written_back += 1


def _compare(
    name: str,
    record: Retirement,
    outcome: Outcome,
    before: list[StackToken],
    after: list[StackToken],
) -> None:
    """Compares the last outcome, and the stack before and after it, with the retired
    instruction.
    """
    where = f"{name}, pc {record.pc:#x} of warp {record.warp}"
    assert outcome.error is record.error, f"{where}: {outcome.error.name}, not {record.error.name}"
    assert outcome.empty == record.terminated, f"{where}: end of the warp"
    kept = len(before) - len(record.popped)
    assert before[kept:] == list(reversed(record.popped)), f"{where}: other tokens popped"
    assert after == before[:kept] + list(record.pushed), f"{where}: other tokens on the stack"
    assert record.terminated or len(after) == record.depth_after, f"{where}: depth {len(after)}"
    if outcome.resume:
        assert outcome.pc == record.next_pc, f"{where}: goes on at {outcome.pc}"
        assert outcome.mask == record.after.active, f"{where}: goes on with {outcome.mask}"
        assert outcome.codes == _codes(record.after), f"{where}: codes"
