"""The barrier unit: waiting and resumed warps, results and errors, against the warp model.

CTAs of random sizes start and end. Their warps arrive, wait, reduce, read and set barriers, meet in
the trap handler, are withdrawn from barriers, and end. The warp model executes the same
instructions in order. All warps that a barrier releases must resume in one cycle.
"""

from typing import Any

from rtl.isa.barriers import BARRIERS, PACKED_COUNT, SYNCALL_BARRIER, BarrierState
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierRead, BarrierReduction
from rtl.params import PRESETS, WARP_THREADS, SmParams
from sim.checks.testbench import Bench
from sim.waves import Mark, Trace, View, error_text
from testbench.barrier.driver import BarrierDriver
from testbench.barrier.warps import ModelWarp, Use
from testbench.handmade import ALL, encode

ALL_REPORTED = 0x00FF_FFFF
_RA, _RB = 4, 5
SYNCALL = encode("BAR", "all")
_MODES = (
    BarrierMode.SYNC,
    BarrierMode.SYNC,
    BarrierMode.ARV,
    BarrierMode.RED,
    BarrierMode.RED,
    BarrierMode.SCAN,
)
_READS = {BarrierRead.BARRIER: "barrier", BarrierRead.RESULT: "result", BarrierRead.WARP: "warp"}


class RandomCtas:
    """A random source of instructions for the driver.

    One warp of a CTA can always continue: the last one completes the barriers of the waiting warps,
    waits with them, or ends when no other warp waits.
    """

    def __init__(
        self, bench: Bench, params: SmParams, barriers: int = BARRIERS, rate: float = 0.3
    ) -> None:
        self._random, self._params, self._barriers, self._rate = (
            bench.random,
            params,
            barriers,
            rate,
        )
        self._starting: list[tuple[int, int, int, int]] = []
        self._resting: Any = None
        self._withdrawals = 0

    def __call__(self, driver: BarrierDriver, ctx: Any, room: bool, more: bool) -> None:
        random = self._random
        starting = {cta for _, cta, _, _ in self._starting}
        if self._starting:
            driver.begin(ctx, *self._starting.pop(0))
        elif more and random.random() < 0.05:
            self._start(driver)
        if driver.asked is None:
            self._withdraw(driver, ctx, starting)
        if not room or random.random() > self._rate:
            return
        starting |= {cta for _, cta, _, _ in self._starting}
        able = [
            warp
            for warp in driver.warps
            if warp is not None
            and warp not in driver.held
            and not driver.ending(warp.cta)
            and warp.cta.slot not in starting
            and (driver.asked is None or warp.cta is not driver.asked.cta)
            and warp.cta is not self._resting
        ]
        if not able:
            return
        warp = random.choice(able)
        others = [other for other in warp.cta.warps if other is not warp]
        waiting = [other for other in others if other.barrier not in (None, SYNCALL_BARRIER)]
        alone = all(other.barrier is not None for other in others)
        if random.random() < 0.1 and not driver.busy(warp.cta) and not (alone and waiting):
            driver.end(ctx, warp)
            return
        meets = random.random() < (0.2 if alone and others else 0.03)
        driver.set_inside(ctx, warp, random.random() < (0.9 if meets else 0.3))
        use = self._helping(waiting) if alone and waiting else self._use(warp, alone)
        if meets and not (alone and waiting):
            use = Use(SYNCALL, **self._threads())
        driver.dispatch(ctx, warp, use)

    def _withdraw(self, driver: BarrierDriver, ctx: Any, starting: set[int]) -> None:
        """Pauses a CTA and withdraws some of its waiting warps, one at a time.

        Sometimes it requests a warp that can't be withdrawn.
        """
        random, cta = self._random, self._resting
        if cta is None:
            ctas = [
                cta
                for slot, cta in driver.ctas.items()
                if slot not in starting and len(cta.warps) > 1
            ]
            if ctas and random.random() < self._rate / 30:
                self._resting, self._withdrawals = random.choice(ctas), random.randint(1, 4)
            return
        if driver.busy(cta) or driver.ending(cta):
            return
        waiting = [warp for warp in cta.warps if warp.barrier not in (None, SYNCALL_BARRIER)]
        self._withdrawals -= 1
        if waiting and self._withdrawals >= 0:
            able = waiting if random.random() < 0.9 else cta.warps
            driver.withdraw(ctx, random.choice(able), cycles=random.randint(1, 20))
        else:
            self._resting = None

    def _start(self, driver: BarrierDriver) -> None:
        """Starts a CTA in free slots."""
        free = [slot for slot, warp in enumerate(driver.warps) if warp is None]
        ctas = [cta for cta in range(self._params.warps) if cta not in driver.ctas]
        if not free or not ctas:
            return
        size = self._random.randint(1, len(free))
        slots, cta = self._random.sample(free, size), self._random.choice(ctas)
        self._starting = [(slot, cta, size, number) for number, slot in enumerate(slots)]

    def _helping(self, waiting: list[ModelWarp]) -> Use:
        """An R2B that completes the barrier of a waiting warp, whatever its count."""
        number = self._random.choice(waiting).barrier
        assert number is not None
        state = BarrierState.const(
            {
                "arrived": self._random.randint(1, 127),
                "expected": 1,
                "population": self._random.randrange(4096),
                "some_false": self._random.randrange(2),
                "some_true": self._random.randrange(2),
            }
        )
        return Use(
            encode("R2B", mode=BarrierRead.BARRIER.value, barrier=number, Rb=_RB),
            rb=state.as_bits(),
        )

    def _threads(self) -> dict[str, int]:
        random = self._random
        masks = [ALL, random.getrandbits(32), 1 << random.randrange(32)]
        active, guard = random.choice(masks) or ALL, random.choice([*masks, ALL, ALL, 0])
        return {
            "active": active,
            "guard": guard,
            "predicate": random.choice([ALL, 0, random.getrandbits(32), active & guard]),
        }

    def _use(self, warp: ModelWarp, alone: bool) -> Use:
        """A random instruction after which at least one warp of the CTA can continue."""
        random, threads = self._random, self._threads()
        choice = random.random()
        number = random.randrange(min(random.choice([1, 4]), self._barriers))
        if random.random() < 0.05:
            number = random.choice([self._barriers - 1, self._barriers, 16, 255])
        if choice < 0.2:
            place = random.choice(list(BarrierRead))
            fields = {"Rd": random.choice([0, 7, 255])}
            if place is BarrierRead.BARRIER:
                fields["barrier"] = number
            if place is BarrierRead.RESULT:
                fields["Pd"] = random.choice([0, 7])
            return Use(encode("B2R", _READS[place], **fields), **threads)
        if choice < 0.3:
            place = random.choice([BarrierRead.RESULT, BarrierRead.WARP, BarrierRead.BARRIER])
            word = encode("R2B", mode=place.value, barrier=number & 15, Rb=_RB)
            return Use(word, **threads, rb=random.getrandbits(32))
        return self._bar(warp, alone, number, threads)

    def _bar(self, warp: ModelWarp, alone: bool, number: int, threads: dict[str, int]) -> Use:
        random = self._random
        count = WARP_THREADS * random.choice([0, 0, random.randint(1, warp.cta.size)])
        # The last warp that does not wait arrives without waiting.
        mode = BarrierMode.ARV if alone else random.choice(_MODES)
        in_registers = random.randrange(2), random.randrange(2)
        packed = all(in_registers)
        if random.random() < 0.1:
            large = (
                [WARP_THREADS << 7, 1 << 31, 3 * WARP_THREADS | 1 << 20]
                if in_registers[1] and not packed
                else []
            )
            wrong = [33, 16, *large]
            count = random.choice(wrong)
        if in_registers[0] and random.random() < 0.05:
            number |= random.choice([16, 256, 1 << 31])
        fields = {"mode": mode.value, "Pc": 7}
        if mode in (BarrierMode.RED, BarrierMode.SCAN):
            fields |= {"Pc": 1, "Pc_not": random.randrange(2)}
        if mode is BarrierMode.RED:
            fields["reduction"] = random.choice(list(BarrierReduction)).value
        fields |= {"Ra": _RA} if in_registers[0] else {"barrier": number}
        fields |= {"Rb": _RB} if in_registers[1] else {"count": count}
        if packed:  # both in one register, or in two that have other bits as well
            number = count = PACKED_COUNT.put(number, count)
            if random.randrange(2):
                fields["Rb"] = _RA
            else:
                number = PACKED_COUNT.put(number, random.randrange(1 << PACKED_COUNT.width))
                count = PACKED_COUNT.put(random.getrandbits(32), PACKED_COUNT.get(count))
        word = encode("BAR", "ir"[in_registers[0]] + "ir"[in_registers[1]], **fields)
        return Use(word, **threads, ra=number, rb=count)


def _play(
    bench: Bench,
    params: SmParams,
    cycles: int,
    *,
    barriers: int = BARRIERS,
    report_mask: int = ALL_REPORTED,
    rate: float = 0.3,
    idle: float = 0.3,
    delay: int = 0,
    traces: bool = False,
) -> BarrierDriver:
    driver = BarrierDriver(
        bench,
        RandomCtas(bench, params, barriers, rate),
        params,
        report_mask=report_mask,
        barriers=barriers,
        idle=idle,
        delay=delay,
    )
    driver.run(cycles, traces=traces_of(driver) if traces else None)
    bench.checked("instructions", driver.done)
    bench.checked("warps let go", driver.released)
    bench.checked("arrivals withdrawn", driver.withdrawn)
    return driver


def check_random(bench: Bench) -> None:
    """CTAs of all sizes, with all barriers and with three, errors reported and not, at high and low
    issue rates.
    """
    cycles = 20_000 if bench.thorough else 1_500
    unreported = ALL_REPORTED & ~(
        1 << WarpError.ILLEGAL_INSTR_PARAM2.value | 1 << WarpError.ILLEGAL_INSTR_PARAM.value
    )
    for preset in ("tiny", "default", "least"):
        _play(bench, PRESETS[preset], cycles)
        _play(
            bench, PRESETS[preset], cycles, barriers=3, report_mask=unreported, rate=1.0, idle=0.8
        )
        _play(bench, PRESETS[preset], cycles // 2, delay=20, rate=1.0, idle=0.0)
    _play(bench, SmParams(warps=32, lanes=32), cycles // 2, rate=1.0, idle=0.0)


def traces_of(driver: BarrierDriver) -> View:
    """The traced signals of the unit."""
    dut = driver.dut
    instruction, barrier = dut.queue.request, dut.view
    return View(
        {
            "instruction": {
                "taken": instruction.ready,
                "warp": Trace(instruction.payload.warp, "dec"),
                "operation": instruction.payload.operation,
                "mode": instruction.payload.mode,
                "reduction": instruction.payload.reduction,
                "number": Trace(instruction.payload.number, "dec"),
                "count": Trace(instruction.payload.count, "dec"),
                "population": Trace(instruction.payload.population, "dec"),
            },
            "barrier": {
                "cta": Trace(barrier["cta"], "dec"),
                "number": Trace(barrier["number"], "dec"),
                "write": barrier["write"],
                "state": barrier["state"],
                "live": Trace(barrier["live"], "dec"),
            },
            "warps": {
                "terminated": dut.terminated.valid,
                "terminated_warp": Trace(dut.terminated.payload, "dec"),
                "waiting": Trace(dut.waiting, "bin"),
                "meeting": Trace(dut.meeting, "bin"),
                "release": barrier["release"],
                "resume": Trace(dut.resume, "bin"),
            },
            "withdrawal": {
                "inside": Trace(dut.inside, "bin"),
                "withdraw": dut.withdraw.valid,
                "warp": Trace(dut.withdraw.payload, "dec"),
                "withdrawn": dut.withdrawn.valid,
            },
            "outcome": {
                "complete": dut.completion.valid,
                "warp": Trace(dut.completion.payload.warp, "dec"),
                "error": error_text(dut.error.valid, dut.error.payload.error),
                "failed": dut.error.valid,
            },
        },
        ("instruction", "barrier", "warps"),
        [Mark("release", [barrier["release"]])],
    )


def record(bench: Bench) -> None:
    """Runs some CTAs on eight warps for the waveform."""
    _play(bench, PRESETS["default"], 600, traces=True)


def run(bench: Bench) -> None:
    """Runs the testbench."""
    for check in (check_random, record):
        check(bench)
