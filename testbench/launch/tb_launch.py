"""The work distributor: descriptors, slots of CTAs and warps, waves, reference counters.

Warps run for a random time, end some threads at a time, and have operations in flight for some
cycles after that. A reference model with lists of slots computes what must start where. Each
thread's index, each cleared register and each address is compared.
"""

from dataclasses import replace
from random import Random

from rtl.layouts import LaunchRejection
from rtl.params import PRESETS, SmParams
from sim.checks.testbench import Bench
from sim.waves import Mark, Trace, View
from testbench.launch.driver import LaunchDriver
from testbench.launch.grid import Grid
from testbench.launch.reference import REFERENCE_MOST


def _play(bench: Bench, params: SmParams, grids: list[Grid], **how: object) -> LaunchDriver:
    driver = LaunchDriver(bench, params, grids, **how)  # pyright: ignore[reportArgumentType]
    driver.run()
    bench.checked("grids", len(grids))
    bench.checked("CTAs", driver.plain.ctas)
    bench.checked("warps", driver.plain.warps)
    bench.checked("threads", driver.plain.threads)
    return driver


def _block(random: Random, warps: int) -> tuple[int, int, int]:
    """A random block of at most this many warps."""
    while True:
        block = random.randint(1, 32 * warps), random.randint(1, 9), random.randint(1, 4)
        block = random.sample(block, 3)
        if block[0] * block[1] * block[2] <= 32 * warps:
            return block[0], block[1], block[2]


def random_grid(random: Random, params: SmParams) -> Grid:
    """A random grid of some CTAs that fits on the machine."""
    while True:
        block, registers = _block(random, params.warps), random.choice([0, 1, 7, 8, 9, 20, 33, 255])
        warps = -(-block[0] * block[1] * block[2] // 32)
        if warps * max(8, -(-registers // 8) * 8) <= params.registers:
            break
    single = random.randrange(2)
    fields = {
        "PROGRAM_OFFSET": random.randrange(1 << 27) * 32,
        "BARRIER_COUNT": random.randint(0, 16),
        "API_VISIBLE_CALL_LIMIT": random.randrange(2),
        "SEQUENTIALLY_RUN_CTAS": int(random.random() < 0.2),
        "SM_DISABLE_MASK_LOWER": random.getrandbits(32) & ~1,
        "CONSTANT_BUFFER_VALID": [random.randrange(2) for _ in range(8)],
        "CONSTANT_BUFFER_ADDR_LOWER": [random.getrandbits(32) for _ in range(8)],
        "CONSTANT_BUFFER_ADDR_UPPER": [random.getrandbits(8) for _ in range(8)],
        "CONSTANT_BUFFER_SIZE": [random.getrandbits(17) for _ in range(8)],
        "SEMAPHORE_RELEASE_ENABLE0": random.randrange(2),
        "RELEASE0_STRUCTURE_SIZE": single,
        "RELEASE0_ADDRESS_UPPER": 0x20,
        "RELEASE0_ADDRESS_LOWER": 16
        + (4 * random.randrange(16) if single else 16 * random.randrange(4)),
        "RELEASE0_PAYLOAD": random.getrandbits(32),
    }
    return Grid(
        (random.randint(1, 4), random.randint(1, 3), random.randint(1, 2)),
        block,
        registers,
        random.choice([0, 0, 1, 256, 300, params.shared_bytes // 3, params.shared_bytes]),
        16 * random.choice([0, 1, 3, 1000]),
        512 * random.choice([0, 1, 8, 2048]),
        fields,
    )


def check_random(bench: Bench) -> None:
    """Grids of all shapes on several machines, with fast and slow ports, short and long warps, and
    halts.
    """
    count = 40 if bench.thorough else 4
    hurry, leisure = {"slow": 0.0, "life": 5}, {"slow": 0.5, "halts": 0.002}
    for preset, how in (
        ("tiny", {}),
        ("default", leisure),
        ("default", hurry),
        ("least", leisure),
        ("least", hurry),
    ):
        params = PRESETS[preset]
        # One grid per run, since all releases are written to the same few addresses.
        for _ in range(count):
            _play(bench, params, [random_grid(bench.random, params)], **how)


def check_waves(bench: Bench, preset: str = "default") -> None:
    """Grids larger than the machine, one at a time; blocks with a partial warp; sixteen warps."""
    params = PRESETS[preset]
    grids = [
        Grid((9, 2, 1), (33, 1, 1), registers=16),
        Grid((5, 1, 1), (7, 5, 3), registers=60, shared=5000),
        Grid((1, 1, 1), (1, 1, 1), registers=255),
        Grid((2, 1, 1), (1, 1, 256), registers=8),
    ]
    driver = _play(bench, params, grids, life=3000 if params.serial else 1000)
    bench.expect("CTAs at once", driver.plain.most, 4)
    if not params.serial:
        _play(
            bench, replace(params, warps=16), [Grid((3, 3, 1), (16, 16, 1), registers=32)], slow=0.0
        )


def check_references(bench: Bench, preset: str = "default") -> None:
    """CTAs wait for their reference counter. CTAs that end give their references back, unless they
    keep them.
    """
    params = PRESETS[preset]

    def counted(**fields: int) -> dict[str, int]:
        return {
            "CWD_REFERENCE_COUNT_ID": 37,
            "CWD_REFERENCE_COUNT_INCR_ENABLE": 1,
            "CWD_REFERENCE_COUNT_DECR_ENABLE": 1,
            **fields,
        }

    delta = {"CWD_REFERENCE_COUNT_DELTA_MINUS_ONE": 9}
    # The counter allows six CTAs; some of them keep their references.
    driver = _play(
        bench,
        params,
        [Grid((5, 1, 1), fields=counted(**delta))],
        references={37: REFERENCE_MOST - 60, 3: 5},
        life=8000 // params.lanes,
        keeps=0.3,
    )
    bench.expect("CTAs at once", driver.plain.most, 5)
    # The counter allows three CTAs at once.
    single = counted(CWD_REFERENCE_COUNT_DELTA_MINUS_ONE=0)
    driver = _play(
        bench,
        params,
        [Grid((7, 1, 1), fields=single)],
        references={37: REFERENCE_MOST - 3},
        life=3200 // params.lanes,
        keeps=0.0,
    )
    bench.expect("CTAs at once", driver.plain.most, 3)
    # Slots are reused by later CTAs.
    _play(
        bench,
        params,
        [Grid((20, 1, 1), fields=counted(**delta))],
        references={37: REFERENCE_MOST - 300},
        life=60,
        keeps=0.3,
    )
    # The counter saturates at 0.
    fields = counted(CWD_REFERENCE_COUNT_INCR_ENABLE=0, CWD_REFERENCE_COUNT_DELTA_MINUS_ONE=255)
    _play(
        bench,
        params if params.serial else PRESETS["tiny"],
        [Grid((3, 1, 1), fields=fields)],
        references={37: 600},
        keeps=0.0,
    )


def check_rejections(bench: Bench, preset: str = "default") -> None:
    """A grid that can't run is rejected with a reason, and the next grid runs."""
    params, reason = PRESETS[preset], LaunchRejection
    share = params.registers // params.warps
    grids = [
        Grid(address=0x10_0000_0080, rejection=reason.ADDRESS),
        Grid(address=0x40_0000_0000, rejection=reason.MEMORY),
        Grid(fields={"QMD_VERSION": 6}, rejection=reason.VERSION),
        Grid(fields={"QMD_MAJOR_VERSION": 2}, rejection=reason.VERSION),
        Grid(fields={"SM_DISABLE_MASK_LOWER": 1}, rejection=reason.DISABLED),
        *(Grid(size=size, rejection=reason.EMPTY) for size in ((0, 1, 1), (1, 0, 1), (1, 1, 0))),
        *(Grid(block=block, rejection=reason.EMPTY) for block in ((0, 1, 1), (1, 0, 1), (1, 1, 0))),
        Grid(fields={"BARRIER_COUNT": 17}, rejection=reason.BARRIERS),
        Grid(crs=256, rejection=reason.STACK),
        Grid(crs=(1 << 20) + 512, rejection=reason.STACK),
        Grid(local=8, rejection=reason.LOCAL),
        Grid(shared=params.shared_bytes + 1, rejection=reason.SHARED),
        Grid(block=(257, 1, 1), rejection=reason.WARPS),
        Grid(block=(1, 65535, 1), rejection=reason.WARPS),
        Grid(block=(65535, 65535, 65535), rejection=reason.WARPS),
        Grid(block=(16, 16, 2), rejection=reason.WARPS),
        Grid(block=(96, 1, 1), registers=255, rejection=reason.REGISTERS),
        Grid(block=(256, 1, 1), registers=share),
        Grid(block=(256, 1, 1), registers=share + 1, rejection=reason.REGISTERS),
        Grid(shared=params.shared_bytes),
        Grid(crs=1 << 20, fields={"BARRIER_COUNT": 16}),
    ]
    _play(bench, params, grids)
    fields = {"SEMAPHORE_RELEASE_ENABLE0": 1, "RELEASE0_ADDRESS_UPPER": 0x50}
    unmapped = Grid(fields=fields, rejection=LaunchRejection.MEMORY)
    driver = LaunchDriver(bench, params, [unmapped])
    driver.run()
    bench.expect("CTAs before a release that fails", driver.plain.ctas, 1)


def traces_of(driver: LaunchDriver) -> View:
    """The traced signals of the unit."""
    dut, control = driver.dut, driver.dut.control
    launch, thread, flow = dut.launch.payload, dut.thread.payload, dut.flow.payload
    return View(
        {
            "grid": {
                "start": control.start.valid,
                "taken": control.start.ready,
                "busy": control.busy,
                "done": control.done,
                "rejection": control.rejection,
                "invalidate": dut.invalidate,
                "halt": dut.halt,
                "request": dut.port.request.valid,
                "write": dut.port.request.payload.write,
                "answer": dut.port.response.valid,
            },
            "warp": {
                "valid": dut.launch.valid,
                "slot": Trace(launch.warp, "dec"),
                "number": Trace(launch.number, "dec"),
                "cta": Trace(launch.cta, "dec"),
                "index": launch.index,
                "first_row": Trace(launch.first_row, "dec"),
                "shared_base": launch.shared_base,
                "local_base": launch.local_base,
            },
            "thread": {
                "valid": dut.thread.valid,
                "thread": Trace(thread.thread, "dec"),
                "x": Trace(thread.x, "dec"),
                "y": Trace(thread.y, "dec"),
                "z": Trace(thread.z, "dec"),
            },
            "registers": {
                "valid": dut.clear_rows.valid,
                "ready": dut.clear_rows.ready,
                "row": Trace(dut.clear_rows.payload, "dec"),
            },
            "flow": {
                "valid": dut.flow.valid,
                "ready": dut.flow.ready,
                "slot": Trace(flow.warp, "dec"),
                "threads": flow.threads,
                "pc": flow.pc,
            },
            "slots": {
                "occupied": Trace(dut.occupied, "bin"),
                "running": Trace(dut.running, "bin"),
                "drained": Trace(dut.drained, "bin"),
                "over": dut.slots.over,
            },
        },
        ("warp", "thread", "flow", "slots"),
        [Mark("warp", [dut.launch.valid])],
    )


RECORDED = Grid((5, 1, 1), (20, 2, 1), registers=12, shared=512)
"""The grid of the waveform."""


def record(bench: Bench) -> None:
    """Runs a grid in three waves for the waveform."""
    driver = LaunchDriver(bench, PRESETS["small"], [RECORDED], life=60)
    driver.run(traces=traces_of(driver))


def run(bench: Bench) -> None:
    """Runs the testbench."""
    check_random(bench)
    for preset in ("default", "least"):
        for check in (check_waves, check_references, check_rejections):
            check(bench, preset)
    record(bench)
