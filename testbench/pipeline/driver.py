"""Drives the execute unit from a script, and records its outputs."""

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rtl.fetch.predecode import kind_of
from rtl.isa.control_code import NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.rate import quarter_rate
from rtl.isa.syntax import PT, RZ
from rtl.isa.table import BY_NAME, find
from rtl.layouts import (
    GATHER_REGISTERS,
    GATHERING,
    InstructionKind,
    LaneClient,
    kinds_where,
    register_write,
)
from rtl.machines import units_of
from rtl.params import WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.waves import View
from testbench.driver import UnitDriver, as_struct

ALL = (1 << WARP_THREADS) - 1
"""The mask of all threads."""
_ZEROS = (0,) * WARP_THREADS
_EVENTS = ("instruction", "gather", "write", "clear_rows", "launch", "thread", "flow_result")
_EARLY = 6
"""Cycles before its completion in which issue is notified of an instruction that may write
predicates or CC.
"""
_PORTS = {
    LaneClient.MEMORY: "memory",
    LaneClient.CONVERSION: "conversion",
    LaneClient.BARRIER: "barrier",
}
_ENDED = kinds_where(lambda rule: rule.silent and rule.unit is None)
"""Kinds of instructions that end when they issue."""
_LOAD = BY_NAME["LDG"][0].default
Script = Generator[None, None, None]
"""A generator that applies the inputs of stage S2; each ``yield`` ends a cycle."""


@dataclass
class Written:
    """What an instruction or an operation has written, over all its beats. ``conditions`` are CC
    nibbles.
    """

    threads: int = 0
    register: int = RZ
    values: list[int] = field(default_factory=lambda: [0] * WARP_THREADS)
    predicates: int = 0
    flags: list[int] = field(default_factory=lambda: [0] * WARP_THREADS)
    conditional: bool = False
    conditions: list[int] = field(default_factory=lambda: [0] * WARP_THREADS)
    beats: int = 0


@dataclass(frozen=True)
class WriteData:
    """The data that a unit supplies for a write."""

    values: Sequence[int] = _ZEROS
    flags: int = 0
    conditions: Sequence[int] = _ZEROS


class Pipeline(UnitDriver):
    """The execute unit with models of the units that gather and supply data.

    On a serial machine the inputs of a script are queued: each is applied when the one before has
    ended. An operation is preceded by an instruction of its unit.

    Attributes:
        written: What was written, by sequence number.
        completions, passed, reads, errors, dispatches, flow_operations: Events with their cycle,
        counted from 0.
        collecting: The cycles in which the operand collector was occupied.
        gathered: For each client and index, the values of each gather in order: those of each
            register's threads.
        supply: For each client and index, the data of a write, supplied on request.
    """

    patience = UnitDriver.limit
    """No timeout: a script ends by itself."""

    def __init__(
        self,
        bench: Bench,
        params: SmParams,
        *,
        report_mask: int = 0,
        grid: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bench, units_of(params).execute(params))
        self.params = params
        self.written: dict[int, Written] = {}
        self.completions: list[tuple[int, Any]] = []
        self.passed: list[tuple[int, Any]] = []
        self.reads: list[tuple[int, Any]] = []
        self.errors: list[tuple[int, Any]] = []
        self.dispatches: list[tuple[int, Any]] = []
        self.flow_operations: list[tuple[int, Any]] = []
        self.collecting: list[int] = []
        self.gathered: dict[tuple[LaneClient, int], list[list[list[int]]]] = defaultdict(list)
        self.supply: dict[tuple[LaneClient, int], WriteData] = {}
        self.sequence = 0
        self._report_mask, self._grid = report_mask, grid or {}
        self._inputs: dict[str, Any] = {}
        self._wanted: list[tuple[LaneClient, int, WriteData]] = []
        self._supplied: dict[LaneClient, tuple[int, WriteData]] = {}
        self._cleared = 0
        self._queue: deque[tuple[dict[str, Any], dict[tuple[LaneClient, int], WriteData]]] = deque()
        self._under_way: set[str] = set()

    @property
    def timed(self) -> bool:
        """Whether the cycle of an event is defined: not on a serial machine."""
        return not self.params.serial

    # Inputs that a script may apply in a cycle

    def issue(
        self,
        word: int,
        *,
        warp: int = 0,
        pc: int = 8,
        constant: int = 0,
        missing: bool = False,
        kind: InstructionKind | None = None,
        error: WarpError = WarpError.NONE,
        write_barrier: int = NO_BARRIER,
        read_barrier: int = NO_BARRIER,
    ) -> int:
        """Issues an instruction; returns its sequence number."""
        form = find(word)
        if kind is None:
            assert form is not None
            kind = kind_of(form)
        self.sequence = (self.sequence + 1) % (1 << 16)
        self._put(
            "instruction",
            {
                "warp": warp,
                "sequence": self.sequence,
                "pc": pc,
                "word": word,
                "kind": kind,
                "quarter": quarter_rate(word),
                "error": error,
                "constant": constant,
                "constant_missing": missing,
                "write_barrier": write_barrier,
                "read_barrier": read_barrier,
            },
        )
        return self.sequence

    def _asks(self, warp: int, sequence: int, barrier: int) -> None:
        """On a serial machine, issues the instruction to which an operation belongs."""
        if not self.timed:
            self._put(
                "instruction",
                {
                    "warp": warp,
                    "sequence": sequence,
                    "word": _LOAD,
                    "kind": InstructionKind.MEMORY,
                    "write_barrier": barrier,
                    "read_barrier": barrier,
                },
            )

    def gather(
        self,
        registers: Iterable[int],
        *,
        warp: int = 0,
        client: LaneClient = LaneClient.MEMORY,
        index: int = 0,
        last: bool = False,
        barrier: int = NO_BARRIER,
    ) -> tuple[LaneClient, int]:
        """Reads registers for a client; returns the key of the values in ``gathered``."""
        numbers = [*registers, RZ, RZ, RZ][:3]
        self._asks(warp, 0, barrier)
        self._put(
            "gather",
            {
                "client": client,
                "operation": {
                    "warp": warp,
                    "registers": numbers,
                    "index": index,
                    "last": last,
                    "barrier": barrier,
                },
            },
        )
        return client, index

    def write(
        self,
        register: int,
        what: WriteData,
        *,
        warp: int = 0,
        threads: int = ALL,
        predicate: int = PT,
        conditional: bool = False,
        client: LaneClient = LaneClient.MEMORY,
        index: int = 0,
        last: bool = True,
        barrier: int = NO_BARRIER,
    ) -> int:
        """Writes the data of a client to a register; returns the sequence number."""
        self.sequence = (self.sequence + 1) % (1 << 16)
        self._asks(warp, self.sequence, barrier)
        self._put(
            "write",
            {
                "client": client,
                "operation": {
                    "warp": warp,
                    "sequence": self.sequence,
                    "register": register,
                    "predicate": predicate,
                    "conditional": conditional,
                    "threads": threads,
                    "index": index,
                    "last": last,
                    "barrier": barrier,
                },
            },
            supply={(client, index): what},
        )
        return self.sequence

    def clear(self, rows: Iterable[int]) -> Script:
        """Clears rows of registers, one at a time."""
        for row in rows:
            before = self._cleared
            while self._cleared == before:
                self.at_once("clear_rows", row)
                yield

    def repeat(self, operation: Any) -> None:
        """Executes a write that the unit has requested, one of ``flow_operations``."""
        fields = {name: operation[name] for name in register_write(self.params).members}
        self._put("write", {"client": LaneClient.FLOW, "operation": fields})

    def launch(
        self, warp: int, *, first_row: int = 0, index: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        """Launches a warp."""
        self._put(
            "launch",
            {"warp": warp, "first_row": first_row, "index": dict(zip("xyz", index, strict=True))},
        )
        if not self.timed:
            for thread in range(WARP_THREADS):
                self.place(warp, thread, (0, 0, 0))

    def place(self, warp: int, thread: int, index: tuple[int, int, int]) -> None:
        """Sets the index of a thread in its block."""
        self._put(
            "thread", {"warp": warp, "thread": thread, **dict(zip("xyz", index, strict=True))}
        )

    def flow_result(
        self, warp: int, active: int, *, value: int = 0, error: WarpError = WarpError.NONE
    ) -> None:
        """Applies a result of the flow unit."""
        self._put("flow_result", {"warp": warp, "active": active, "value": value, "error": error})

    def at_once(self, port: str, value: Any) -> None:
        """Sets a port in this cycle, on a serial machine as well."""
        self._inputs[port] = value

    def accept_flow(self) -> None:
        """Accepts the operation that the unit requests for the flow unit's result."""
        self._put("write_flow.ready", 1)

    def wait(self, cycles: int) -> Script:
        """Waits for ``cycles`` cycles."""
        for _ in range(cycles):
            yield

    def settle(self, cycles: int) -> Script:
        """Waits until all queued inputs of a serial machine have ended, then for some cycles."""
        while self._queue or self._under_way:
            yield
        yield from self.wait(cycles if self.timed else 2)

    def _put(
        self,
        port: str,
        value: Any,
        supply: Mapping[tuple[LaneClient, int], WriteData] | None = None,
        **beside: Any,
    ) -> None:
        if not self.timed:
            self._queue.append(({port: value, **beside}, dict(supply or {})))
            return
        assert port not in self._inputs, f"{port}: two in a cycle"
        self._inputs |= {port: value, **beside}
        self.supply |= supply or {}

    def _advance(self) -> None:
        """On a serial machine, applies the next queued input if nothing is in flight."""
        if not self._queue or self._under_way:
            return
        inputs, supply = self._queue.popleft()
        self._inputs |= inputs
        self.supply |= supply
        if "instruction" in inputs and inputs["instruction"]["kind"] not in _ENDED:
            self._under_way.add("instruction")
        if "gather" in inputs:
            self._under_way.add("gather")
        if "write" in inputs:
            self._under_way |= (
                {"write", "instruction"} if inputs["write"]["operation"]["last"] else {"write"}
            )

    # The simulation

    def play(
        self,
        script: Callable[["Pipeline"], Script],
        *,
        traces: View | None = None,
        name: str = "",
        linger: int = 24,
    ) -> None:
        """Simulates a script, and some cycles after its end."""
        self.run(script, linger, traces=traces, name=name)
        passed = {
            (cycle, event.warp, event.write_barrier, event.read_barrier)
            for cycle, event in self.passed
        }
        for cycle, event in self.completions:
            is_notified = any(
                (cycle - early, event.warp, event.write_barrier, event.read_barrier) in passed
                for early in ((_EARLY, self.params.beats + 4) if self.timed else (0,))
            )
            self.bench.expect(f"whether issue knew before cycle {cycle}", is_notified, True)

    async def _drive(self, ctx: Any, script: Callable[["Pipeline"], Script], linger: int) -> None:
        dut = self.dut
        ctx.set(dut.report_mask, self._report_mask)
        ctx.set(dut.grid, self._grid)
        ports = {name: getattr(dut, name) for name in _EVENTS}
        ports["write_flow.ready"] = dut.write_flow.ready
        listeners, before = self._listeners(), set()
        playing = script(self)
        while linger:
            self._inputs.clear()
            if next(playing, self) is self and not (self._queue or self._under_way):
                linger -= 1
            self._advance()
            for port in before - self._inputs.keys():
                signal = ports[port].valid if port in _EVENTS else ports[port]
                ctx.set(signal.as_value() if hasattr(signal, "as_value") else signal, 0)
            for port, value in self._inputs.items():
                if port in _EVENTS:
                    ctx.set(ports[port].valid, 1)
                ctx.set(ports[port].payload if port in _EVENTS else ports[port], value)
            before = set(self._inputs)
            for client, beat, what in self._wanted:
                self._hand_over(ctx, client, beat, what)
            self._wanted.clear()
            values = await self._tick(ctx, *(signal for signal, _ in listeners))
            for value, (_, hear) in zip(values, listeners, strict=True):
                hear(value)

    def _listeners(self) -> list[tuple[Any, Callable[[int], None]]]:
        """The observed events: their signals, and the functions that receive them."""
        dut, listeners = self.dut, []

        def listen(event: Any, hear: Callable[[Any], None]) -> None:
            struct = as_struct(event)
            layout = struct.shape()
            listeners.append(
                (struct.as_value(), lambda bits: hear(layout.from_bits(bits)) if bits & 1 else None)
            )

        for event, events in (
            (dut.dispatch, self.dispatches),
            (dut.completion, self.completions),
            (dut.passed, self.passed),
            (dut.gathered, self.reads),
            (dut.error, self.errors),
            (dut.write_flow, self.flow_operations),
        ):
            listen(event, lambda what, events=events: events.append((self.cycle - 1, what)))
        listen(dut.completion, lambda _: self._under_way.discard("instruction"))
        listen(dut.dispatch, lambda _: self._under_way.discard("instruction"))
        listen(dut.written, self._note)
        listeners.append(
            (dut.collecting, lambda bit: self.collecting.append(self.cycle - 1) if bit else None)
        )
        listeners.append((dut.clear_rows.valid & dut.clear_rows.ready, self._count_cleared))
        for client, name in _PORTS.items():
            port = getattr(dut, name)
            if client in GATHERING:
                listen(port.gathered, lambda what, client=client: self._gather(client, what))
            listen(port.wanted, lambda what, client=client: self._want(client, what))
        return listeners

    def _count_cleared(self, taken: int) -> None:
        self._cleared += taken

    def _threads(self, beat: int) -> range:
        return range(beat * self.params.lanes, (beat + 1) * self.params.lanes)

    def _want(self, client: LaneClient, beat: Any) -> None:
        """A beat of a write's data is requested. At the request of its last beat the next operation
        may already use the same index.
        """
        if not beat.beat:
            self._supplied[client] = beat.index, self.supply[client, beat.index]
        index, what = self._supplied[client]
        self.bench.expect("the mark of what is wanted", beat.index, index)
        self._wanted.append((client, beat.beat, what))

    def _hand_over(self, ctx: Any, client: LaneClient, beat: int, what: WriteData) -> None:
        """Supplies a beat of a write's data, a cycle after its request."""
        port, threads = getattr(self.dut, _PORTS[client]), self._threads(beat)
        ctx.set(port.values.as_value(), _packed((what.values[thread] for thread in threads), 32))
        ctx.set(port.flags, what.flags >> threads.start & (1 << len(threads)) - 1)
        ctx.set(
            port.conditions.as_value(), _packed((what.conditions[thread] for thread in threads), 4)
        )

    def _gather(self, client: LaneClient, beat: Any) -> None:
        """Records a beat of gathered registers."""
        if beat.beat == self.params.beats - 1:
            self._under_way.discard("gather")
        gathered = self.gathered[client, beat.index]
        if not beat.beat:
            gathered.append([[-1] * WARP_THREADS for _ in range(GATHER_REGISTERS)])
        for lane, thread in enumerate(self._threads(beat.beat)):
            for register, value in zip(gathered[-1], beat["values"][lane], strict=True):
                register[thread] = value

    def _note(self, beat: Any) -> None:
        """Records a written beat."""
        written = self.written.setdefault(beat.sequence, Written())
        threads = self._threads(beat.beat)
        written.beats += 1
        if beat.beat == self.params.beats - 1:
            self._under_way.discard("write")
        written.threads |= beat.lanes << threads.start
        written.register, written.conditional = beat.register, bool(beat.conditional)
        written.predicates |= beat.predicates
        conditions = beat.conditions.as_bits()
        for lane, thread in enumerate(threads):
            written.values[thread] = beat["values"][lane]
            written.flags[thread] = beat.flags[lane]
            written.conditions[thread] = conditions >> 4 * lane & 15


def _packed(values: Iterable[int], width: int) -> int:
    return sum(value << width * place for place, value in enumerate(values))
