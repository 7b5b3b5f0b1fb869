"""Drives the barrier unit with CTAs whose warps arrive, wait and end at random, and compares it
with the warp model.
"""

from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from rtl.isa.barriers import BARRIERS, SYNCALL_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ, Register
from rtl.layouts import InstructionKind, dispatched
from rtl.machines import units_of
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.model.warp.action import Action
from sim.model.warp.barrier_actions import barrier_action, read_action, write_action
from sim.model.warp.barriers import settle, withdraw
from sim.model.warp.faults import WarpFaultError
from sim.model.warp.state import Barrier
from sim.toolchain.assembly.spelling import spell
from testbench.barrier.warps import ModelWarp, Use
from testbench.driver import UnitDriver, as_struct, offer
from testbench.execute.lane_client_driver import LaneClientDriver, LaneOperation
from testbench.handmade import ALL
from testbench.words import form_of

_MAKERS = {"BAR": barrier_action, "B2R": read_action, "R2B": write_action}


def _mask(warps: set[ModelWarp]) -> int:
    return sum(1 << warp.slot for warp in warps)


@dataclass
class _UnderWay:
    """A dispatched instruction in flight and its expected results."""

    warp: ModelWarp
    use: Use
    pc: int
    error: WarpError
    writes: dict[str, tuple[int, int, int]]
    sequence: int
    scoreboards: tuple[int, int]
    """The scoreboards of its writes and of its reads; 7 for none."""
    holds: bool
    """The warp is held until the unit releases it."""


class BarrierDriver(UnitDriver):
    """Dispatches the instructions of a source; the model executes each of them at its dispatch.

    An instruction, the end of a warp and a withdrawal of the same CTA never overlap, since the unit
    and the model might process them in different order. Those of different CTAs overlap freely.

    Parameters:
        source: Called every cycle with the driver, the simulation context, whether the unit has
            room, and whether new CTAs may begin. It may launch or end a warp, request a withdrawal,
            or dispatch an instruction if the unit has room.

    Attributes:
        warps: The warp of each slot; None for a free slot.
        held: Warps that the unit has yet to release.
        asked: The warp whose withdrawal is requested; None without a request.
        done, released, withdrawn: Number of instructions compared, warps released, and arrivals
            withdrawn.
    """

    patience = 2_000

    def __init__(
        self,
        bench: Bench,
        source: Any,
        params: SmParams,
        *,
        report_mask: int,
        barriers: int = BARRIERS,
        idle: float = 0.3,
        delay: int = 0,
    ) -> None:
        dut = units_of(params).barrier(params)
        self.lanes = LaneClientDriver(
            bench, params, dut.port, idle=idle, delay=delay, ended=self._written
        )
        super().__init__(bench, dut, self.lanes)
        self.source, self.params = source, params
        self.report_mask, self.barriers = report_mask, barriers
        self.warps: list[ModelWarp | None] = [None] * params.warps
        self.ctas: dict[int, Any] = {}
        self.held: set[ModelWarp] = set()
        self.asked: ModelWarp | None = None
        self.done = self.released = self.withdrawn = 0
        self._core: Any = SimpleNamespace(launch=SimpleNamespace(barriers=barriers))
        self._under_way: deque[_UnderWay] = deque()
        self._reads: dict[int, _UnderWay] = {}
        self._lets_go: deque[_UnderWay] = deque()
        self._groups: list[set[ModelWarp]] = []
        self._ending: dict[int, int] = {}
        self._asked_until = 0
        self._sequence = 0
        self._dispatched = dispatched(params)

    def busy(self, cta: Any) -> bool:
        """Whether an instruction of the CTA is in flight."""
        flying = [*self._under_way, *self._reads.values()]
        return any(item.warp.cta is cta for item in flying)

    def ending(self, cta: Any) -> bool:
        """Whether the end of a warp of the CTA has not yet reached the unit."""
        return cta.slot in self._ending

    async def _drive(self, ctx: Any, cycles: int) -> None:
        """Runs for ``cycles`` cycles, and then until all CTAs have ended."""
        dut = self.dut
        ctx.set(dut.report_mask, self.report_mask)
        ctx.set(dut.barriers, self.barriers)
        sampled = (
            dut.room,
            dut.resume,
            as_struct(dut.completion),
            as_struct(dut.error),
            dut.waiting,
            dut.meeting,
            dut.unsettled,
            as_struct(dut.withdrawn),
            as_struct(dut.operands_read),
        )
        async for (
            room,
            resume,
            completed,
            error,
            waiting,
            meeting,
            lost,
            withdrawn,
            let_go,
        ) in self._ticks(ctx, *sampled):
            if resume or completed.valid or error.valid or withdrawn.valid:
                self._happened()
            self._completed(completed, error)
            self._let_go(let_go)
            self._resumed(resume)
            self._withdrawn(ctx, withdrawn)
            self._ending = {
                cta: since
                for cta, since in self._ending.items()
                if lost >> cta & 1 or self.cycle < since + 2
            }
            for port in (dut.dispatch.valid, dut.launch.valid, dut.terminated.valid):
                ctx.set(port, 0)
            if not (
                self._under_way or self._reads or self._groups or self._ending or withdrawn.valid
            ):
                meet = {warp for warp in self._waiting() if warp.barrier == SYNCALL_BARRIER}
                self.bench.expect("warps that wait", waiting, _mask(self._waiting() - meet))
                self.bench.expect("warps at BAR.SYNCALL", meeting, _mask(meet))
            if self.cycle < cycles or self.ctas:
                free = not (self.params.serial and (self._under_way or self._reads))
                self.source(self, ctx, bool(room) and free, self.cycle < cycles)
            elif not (self._under_way or self._reads or self._groups):
                return

    def _due(self) -> list[str]:
        return [
            f"slot {item.warp.slot}: {spell(item.use.word)}"
            for item in (*self._under_way, *self._reads.values())
        ] + [f"slots {sorted(warp.slot for warp in group)} go on" for group in self._groups]

    def begin(self, ctx: Any, slot: int, cta: int, warps: int, number: int) -> None:
        """Launches a warp."""
        if number == 0:
            self.ctas[cta] = SimpleNamespace(
                slot=cta,
                warps=[],
                size=warps,
                barriers=[Barrier() for _ in range(SYNCALL_BARRIER + 1)],
            )
        group = self.ctas[cta]
        warp = ModelWarp(slot, group, {}, [0] * 7 + [ALL])
        self.warps[slot] = warp
        group.warps.append(warp)
        offer(
            ctx, self.dut.launch, {"warp": slot, "cta": cta, "number": number, "cta_warps": warps}
        )

    def end(self, ctx: Any, warp: ModelWarp) -> None:
        """Ends a warp; the model releases the barriers that this completes."""
        offer(ctx, self.dut.terminated, warp.slot)
        before = {waiting: waiting.barrier for waiting in self._waiting()}
        self.warps[warp.slot] = None
        warp.cta.warps.remove(warp)
        settle(warp.cta)
        freed = before.keys() - self._waiting()
        for number in {before[waiting] for waiting in freed}:
            self._group({waiting for waiting in freed if before[waiting] == number})
        self._ending[warp.cta.slot] = self.cycle + 1
        if not warp.cta.warps:
            del self.ctas[warp.cta.slot]

    def set_inside(self, ctx: Any, warp: ModelWarp, inside: bool) -> None:
        """Sets whether a warp is in the trap handler. The warp must not be held."""
        warp.in_trap = inside
        ctx.set(self.dut.inside[warp.slot], inside)

    def withdraw(self, ctx: Any, warp: ModelWarp, cycles: int = 0) -> None:
        """Requests the withdrawal of a warp until the unit answers. No instruction of its CTA may
        be in flight.

        The unit does not answer for a warp that waits at no barrier: that request ends after
        ``cycles`` cycles.
        """
        self.asked, self._asked_until = warp, self.cycle + cycles
        offer(ctx, self.dut.withdraw, warp.slot)

    def dispatch(self, ctx: Any, warp: ModelWarp, use: Use) -> None:
        """Dispatches an instruction of a warp, and executes it in the model."""
        form = form_of(use.word)
        values = form.values(use.word)
        lowest = [use.ra, use.rb]
        threads = use.active & use.guard
        for operand in form.operands.values():
            if isinstance(operand, Register) and operand.field in ("Ra", "Rb"):
                lane = (threads & -threads).bit_length() - 1
                warp.rows[values[operand.field]] = [0xDEAD_BEEF] * WARP_THREADS
                warp.rows[values[operand.field]][lane] = lowest[["Ra", "Rb"].index(operand.field)]
        if "Pc" in values:
            warp.predicates[values["Pc"]] = use.predicate ^ (ALL if values["Pc_not"] else 0)
        before, error, warp.writes = self._waiting(), WarpError.NONE, {}
        action: Action = _MAKERS[form.name](form, values)
        try:
            action(self._core, warp, threads, None)  # pyright: ignore[reportArgumentType]
        except WarpFaultError as fault:
            error = fault.error
        reported = error if self.report_mask >> error.value & 1 else WarpError.NONE
        pc = self.bench.random.randrange(1 << 29) * 8
        holds = form.name != "B2R"
        self._sequence = (self._sequence + 1) % (1 << 16)
        write_barrier, read_barrier = (self.bench.random.randrange(8) for _ in range(2))
        item = _UnderWay(
            warp,
            use,
            pc,
            reported,
            warp.writes,
            self._sequence,
            (write_barrier, read_barrier),
            holds,
        )
        if item.writes:
            self._reads[self._sequence] = item
            self._lets_go.append(item)
        else:
            self._under_way.append(item)
        kind = InstructionKind.BARRIER if holds else InstructionKind.BARRIER_READ
        if holds:
            self.held.add(warp)
            freed = before - self._waiting()
            if warp.barrier is None and reported is WarpError.NONE:
                freed = freed | {warp}
            self._group(freed)
        bits = self._dispatched.const(
            {
                "warp": warp.slot,
                "sequence": self._sequence,
                "pc": pc,
                "word": use.word,
                "kind": kind,
                "active": use.active,
                "guard": use.guard,
                "predicate": use.predicate,
                "operands": lowest,
                "write_barrier": write_barrier,
                "read_barrier": read_barrier,
            }
        )
        offer(ctx, self.dut.dispatch, bits)

    def _waiting(self) -> set[ModelWarp]:
        return {warp for warp in self.warps if warp is not None and warp.barrier is not None}

    def _group(self, warps: set[ModelWarp]) -> None:
        if warps:
            self._groups.append(warps)

    def _completed(self, event: Any, payload: Any) -> None:
        """Compares the completion of an instruction that writes no register."""
        if not event.valid:
            self.bench.expect("an error without a completion", int(payload.valid), 0)
            return
        if not self._under_way:
            self.bench.fail(f"slot {int(event.warp)}: a completion that nothing was sent for")
        item = self._under_way.popleft()
        where = f"slot {item.warp.slot}, {spell(item.use.word)}"
        self.bench.expect(f"{where}: completed slot", int(event.warp), item.warp.slot)
        self.bench.expect(
            f"{where}: sequence and scoreboards",
            (int(event.sequence), int(event.write_barrier), int(event.read_barrier)),
            (item.sequence, *item.scoreboards),
        )
        got = WarpError(payload.error) if payload.valid else WarpError.NONE
        self.bench.expect(f"{where}: error", got, item.error)
        if got is not WarpError.NONE:
            self.bench.expect(
                f"{where}: pc of the error",
                (int(payload.warp), int(payload.pc)),
                (item.warp.slot, item.pc),
            )
            if item.holds:
                self.held.discard(item.warp)
        self.done += 1

    def _let_go(self, release: Any) -> None:
        """Compares the early release of a read scoreboard: a B2R releases it once, when its write
        is sent.
        """
        if release.valid:
            if not self._lets_go:
                self.bench.fail(
                    f"slot {int(release.warp)}: a scoreboard goes down that nothing was sent for"
                )
            item = self._lets_go.popleft()
            self.bench.expect(
                f"slot {item.warp.slot}, {spell(item.use.word)}: slot and scoreboard that goes down",
                (int(release.warp), int(release.barrier)),
                (item.warp.slot, item.scoreboards[1]),
            )

    def _resumed(self, resume: int) -> None:
        """Compares the warps that the unit resumes with one of the groups that the model has
        released.
        """
        if not resume:
            return
        slots = {slot for slot in range(self.params.warps) if resume >> slot & 1}
        group = next(
            (group for group in self._groups if {warp.slot for warp in group} == slots), None
        )
        if group is None:
            wanted = [sorted(warp.slot for warp in group) for group in self._groups]
            self.bench.fail(f"slots {sorted(slots)} go on together, expected one of {wanted}")
        self._groups.remove(group)
        self.held -= group
        self.released += len(group)

    def _withdrawn(self, ctx: Any, withdrawn: Any) -> None:
        """Compares a withdrawn warp, and ends the request."""
        warp = self.asked
        stays = warp is None or warp.barrier is None or warp.barrier == SYNCALL_BARRIER
        if withdrawn.valid:
            slot = int(withdrawn.payload)
            if warp is None or stays:
                self.bench.fail(f"slot {slot}: withdrawn, expected nothing")
            self.bench.expect("slot withdrawn", slot, warp.slot)
            withdraw(warp)  # pyright: ignore[reportArgumentType]
            self.held.discard(warp)
            self.withdrawn += 1
        elif warp is None or not stays or self.cycle < self._asked_until:
            return
        self.asked = None
        ctx.set(self.dut.withdraw.valid, 0)

    def _written(self, operation: LaneOperation) -> None:
        """Compares the register that a B2R has written."""
        item = self._reads.pop(operation.sequence, None)
        if item is None:
            self.bench.fail(f"slot {operation.warp}: a write that nothing was sent for")
        where = f"slot {item.warp.slot}, {spell(item.use.word)}"
        self.bench.expect(
            f"{where}: scoreboard of its write, its last one",
            (operation.barrier, operation.last),
            (item.scoreboards[0], True),
        )
        self.bench.expect(f"{where}: it was notified that it is sent", item in self._lets_go, False)
        register = item.writes.get("register")
        self.bench.expect(
            f"{where}: register", operation.registers[0], RZ if register is None else register[0]
        )
        if register is not None:
            number, value, threads = register
            got = self.lanes.registers[item.warp.slot, number]
            self.bench.expect(f"{where}: threads that write", operation.threads, threads)
            self.bench.expect(
                f"{where}: value",
                {got[t] for t in range(WARP_THREADS) if threads >> t & 1},
                {value},
            )
        if "predicate" in item.writes:
            number, value, threads = item.writes["predicate"]
            got = self.lanes.predicates[item.warp.slot, number] & threads
            self.bench.expect(f"{where}: predicate", got, threads if value else 0)
        self.done += 1
