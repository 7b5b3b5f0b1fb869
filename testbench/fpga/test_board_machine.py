"""A board as a machine: its driver reads and writes its registers; a serial line into a simulation."""

import os
import pty
import tty
from dataclasses import replace
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from rtl.fpga.machine import MEMORY_BASE
from rtl.fpga.registers import BOARD_BLOCK, BOARD_REGISTERS, IDENTITY, PARTS, SIZES
from rtl.isa.registers import COUNTER_BLOCK, COUNTERS, WORK_REGISTERS
from rtl.isa.tokens import CACHED_TOKENS, CRS_GRANULE
from rtl.layouts import Policy
from rtl.params import PRESETS, SmParams
from sim.board import machine as board_machine
from sim.board import placing, stand_in
from sim.board.errors import BoardError
from sim.board.link import PySerialPort, consecutive_lines
from sim.board.machine import Board
from sim.board.memory import BoardImage, BoardMemory
from sim.board.placing import launch_with_stacks, share, stack_sizes
from sim.launch import CRS_DEFAULT, LOCAL_MEMORY, prepare
from sim.launch.memory import Memory, MemoryFaultError, OutOfMemoryError
from sim.launch.runtime import HEAP_MEMORY, OUTPUT_MEMORY
from sim.machine.base import HardwareResult
from sim.machine.host import REGISTERS
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.fakes import fake

MEMORY_BYTES = 1 << 20


def at(name):
    return BOARD_BLOCK + BOARD_REGISTERS[name].offset


class FakeLink:
    """Registers and lines of a board; it records register writes in order, and requests for lines."""

    def __init__(self, params):
        sizes = {name.upper(): getattr(params, name).bit_length() - 1 for name in SIZES}
        tokens = params.stack_tokens
        parts = {name.upper(): int(getattr(params, name)) for name in PARTS}
        parts["STACK_TOKENS"] = 0 if tokens == CACHED_TOKENS else tokens.bit_length() - 1
        self.registers = {
            at("IDENTITY"): IDENTITY,
            at("SIZE"): BOARD_REGISTERS["SIZE"].put(**sizes),
            at("IDENTITY") + 8: 45_000_000,
            at("IDENTITY") + 12: MEMORY_BYTES,
            at("PARTS"): BOARD_REGISTERS["PARTS"].put(**parts),
        }
        self.writes, self.lines, self.asked, self.sent, self.closed = [], {}, [], [], 0

    def read_registers(self, address, count):
        self.asked.append((address, count))
        return [self.registers.get(address + 4 * number, 0) for number in range(count)]

    def write_register(self, address, value):
        self.writes.append((address, value))

    def read_lines(self, addresses):
        self.asked += (some := list(addresses))
        return {line: self.lines.get(line, bytes(64)) for line in some}

    def write_lines(self, lines):
        self.sent += lines
        for line, (content, mask) in lines.items():
            old = self.lines.get(line, bytes(64))
            self.lines[line] = bytes(
                new if mask >> number & 1 else kept
                for number, (new, kept) in enumerate(zip(content, old, strict=True))
            )
        return []

    def close(self):
        self.closed += 1


def fake_link(params: SmParams) -> Any:
    """A FakeLink that replaces the link to a board."""
    return FakeLink(params)


@pytest.fixture
def link():
    return fake_link(PRESETS["tiny"])


@pytest.fixture
def board(link):
    made = Board(link, "a port", Policy(1))
    made.memory = Memory()
    return made


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_machine_of_a_board_is_the_one_that_its_registers_describe(preset):
    params = PRESETS[preset]
    if any(getattr(params, name) & getattr(params, name) - 1 for name in SIZES):
        pytest.skip("a board's sizes are powers of two")
    found = Board(fake_link(params), "a port")
    assert found.params == params and PRESETS[found.preset] == params
    assert (found.clock, found.size) == (45_000_000, MEMORY_BYTES)


def test_a_machine_without_a_preset_is_called_by_its_parameters():
    params = replace(PRESETS["tiny"], stack_tokens=2 * CACHED_TOKENS)
    found = Board(fake_link(params), "a port")
    assert found.params == params
    assert f"{2 * CACHED_TOKENS} stack tokens" in found.preset


def test_what_is_no_board_is_refused(link):
    link.registers[at("IDENTITY")] += 1
    with pytest.raises(BoardError) as refused:
        Board(link, "a port")
    assert str(refused.value) == (
        f"port a port: no board of this project, its identity is {IDENTITY + 1:#x}"
    )


def test_a_reset_clears_the_counters_and_ends_or_is_an_error(board, link, monkeypatch):
    control = BOARD_REGISTERS["CONTROL"]
    board._reset()
    assert link.writes[0] == (at("CONTROL"), control.put(POLICY=board.policy.value, RESET=1))
    assert link.writes[1:] == [(COUNTER_BLOCK + 8 * number, 0) for number in range(len(COUNTERS))]
    answers = [control.put(RESET=1)] * 3 + [0]
    monkeypatch.setattr(board_machine, "_RESET_LOOKS", 4)
    monkeypatch.setattr(link, "read_registers", lambda address, count: [answers.pop(0)])
    board._reset()
    assert not answers
    answers = [control.put(RESET=1)] * 9
    with pytest.raises(BoardError, match=r"^the board's machine does not leave its reset: "):
        board._reset()
    assert len(answers) == 5


def test_state_and_cycles_are_read_at_one_moment(board, link):
    state = BOARD_REGISTERS["STATE"]
    for name, shown in (("LOCKED_DOWN", "locked_down"), ("INTERRUPT", "interrupted")):
        link.registers[at("STATE")] = state.put(**{name: 1})
        assert getattr(board, shown) is True
        link.registers[at("STATE")] = state.put() ^ 0
        assert getattr(board, shown) is False
    link.registers |= {at("STATE"): 5, at("STATE") + 4: 7, at("STATE") + 8: 2}
    assert board._look() == (5, 7 | 2 << 32)
    link.registers[REGISTERS["STATUS"]] = WORK_REGISTERS["STATUS"].put(DONE=1)
    assert board.ended is True
    link.registers[REGISTERS["STATUS"]] = 0
    assert board.ended is False


def done(coroutine):
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


def test_time_passes_until_a_level_rises_or_the_cycles_are_over(board, link, monkeypatch):
    """A constant level is not reported again; a machine that has become idle is."""
    state = BOARD_REGISTERS["STATE"]
    busy, locked = state.put(BUSY=1), state.put(BUSY=1, LOCKED_DOWN=1)
    looks = [(busy, 110), (busy, 150), (locked, 160), (locked, 190), (locked, 220), (0, 240)]
    board._began, board._levels, board.cycles = 100, 0, 0
    monkeypatch.setattr(board, "_look", lambda: looks.pop(0))
    assert done(board.advance(1000)) is True and board.cycles == 60
    assert done(board.advance(60)) is False and board.cycles == 120
    assert done(board.advance(60)) is True and board.cycles == 140
    assert not looks


def test_consecutive_registers_are_read_at_once(board, link):
    link.registers |= {0x100 + 4 * number: number for number in range(8)}
    link.asked.clear()
    addresses = [0x100, 0x104, 0x108, 0x110, 0x10C, 0x118, 0x11C]
    assert done(board.read_all(addresses)) == [0, 1, 2, 4, 3, 6, 7]
    assert link.asked == [(0x100, 3), (0x110, 1), (0x10C, 1), (0x118, 2)]
    assert done(board.read_all([])) == []
    done(board.write(0x40, 5))
    assert link.writes[-1] == (0x40, 5)


def test_warps_that_live_or_are_paused_are_named(board):
    result = HardwareResult("timeout", 0)
    result.registers = {
        "WARP_VALID_MASK": 0b101,
        "WARP_VALID_MASK_1": 0b10,
        "BPT_PAUSE_MASK": 0,
        "BPT_PAUSE_MASK_1": 0,
    }
    board.examine(result)
    assert result.diagnosis == ["warps live: 0 2 33", "warps paused: none"]


def test_a_picture_is_shown_at_its_address(board, link):
    control = BOARD_REGISTERS["FRAMEBUFFER_CONTROL"]
    board.show(MEMORY_BASE + 0x8000, 2)
    assert link.writes == [
        (at("FRAMEBUFFER_ADDRESS"), 0x8000),
        (at("FRAMEBUFFER_CONTROL"), control.put(ENABLE=1, SCALE=2)),
    ]
    for name, shown in (("VIDEO", "has_video"), ("UNDERRUN", "underrun")):
        for value in (True, False):
            link.registers[at("FRAMEBUFFER_CONTROL")] = control.put(**{name: int(value)})
            link.asked.clear()
            assert getattr(board, shown) is value
            assert link.asked == [(at("FRAMEBUFFER_CONTROL"), 1)]
    board.close()
    assert link.closed == 1


# Results


def placed(board, link):
    """Returns the memory of a launch on the board, which has run and changed every line."""
    memory = Memory(MEMORY_BASE, 4096)
    for name in ("program", "out", "other", OUTPUT_MEMORY, HEAP_MEMORY, LOCAL_MEMORY):
        base = memory.allocate(name, 128)
        memory.write(base, bytes(range(128)))
    memory.mark_constant(memory.regions["program"][0])
    variable = memory.allocate("variable", 32)
    memory.write_number(variable, 8, memory.regions[OUTPUT_MEMORY][0])
    memory.write_number(variable + 8, 8, 128)
    board.memory = on_board = BoardMemory(memory, link, board._image)
    on_board.load()
    on_board.forget()
    for name, (base, size) in memory.regions.items():
        if name != "variable":
            for line in range(base, base + size, 64):
                link.lines[line] = bytes([9] * 64)
    word = link.lines[variable - variable % 64]
    link.lines[variable - variable % 64] = word[:16] + (64).to_bytes(8, "little") + word[24:]
    link.asked.clear()
    return memory, fake(output=variable)


def changed(memory):
    """Returns the regions whose first line the machine has written."""
    return {
        name
        for name, (base, _) in memory.regions.items()
        if name != "variable" and memory.read(base, 64) == bytes([9] * 64)
    }


@pytest.mark.parametrize(
    ("names", "whole", "status", "expected"),
    [
        (None, False, "ok", {"out", "other", OUTPUT_MEMORY}),
        ({"out"}, False, "ok", {"out", OUTPUT_MEMORY}),
        (None, True, "ok", {"out", "other", OUTPUT_MEMORY, HEAP_MEMORY}),
        (None, False, "error", {"out", "other", OUTPUT_MEMORY}),
    ],
)
def test_results_are_what_was_asked_for_and_what_was_printed(
    board, link, names, whole, status, expected
):
    memory, launch = placed(board, link)
    board.take_back(launch, HardwareResult(status, 0), names, whole=whole)
    assert changed(memory) == expected
    base, _ = memory.regions[OUTPUT_MEMORY]
    assert memory.read(base + 64, 64) == bytes(range(64, 128))  # only the printed text is read
    assert bool(link.writes) == (status != "ok")  # it is reset
    known = any(board._image.has(line) for line in range(MEMORY_BASE, MEMORY_BASE + 0x8000, 64))
    assert known == (status == "ok")


def test_a_launch_that_has_written_nothing_leaves_all_as_it_was(board, link):
    memory, _ = placed(board, link)
    launch = fake(output=None)
    result = HardwareResult("ok", 0, counters={"memory_writes": 0})
    board.take_back(launch, result, None, whole=False)
    assert not link.asked and not changed(memory)
    assert board._image.has(memory.regions["out"][0])
    board.forget()
    assert not any(
        board._image.has(line) for line in range(MEMORY_BASE, MEMORY_BASE + MEMORY_BYTES, 64)
    )


def test_all_is_read_again_for_a_whole_result(board, link):
    memory, launch = placed(board, link)
    base, _ = memory.regions["out"]
    assert board.memory.read(base, 64) == bytes([9] * 64)
    link.lines[base] = bytes([8] * 64)  # without the host's knowledge
    board.take_back(launch, HardwareResult("ok", 0), None, whole=False)
    assert memory.read(base, 1) == b"\t"
    board.take_back(launch, HardwareResult("ok", 0), None, whole=True)
    assert memory.read(base, 1) == b"\x08"


def test_a_run_begins_at_cycle_0_with_the_launch_on_the_board(board, link, monkeypatch):
    module = load(assemble(".kernel k\nNOP\nEXIT\n", "k.sass"))
    heap = MEMORY_BASE + 4096
    launch = prepare(module, memory=Memory(heap, 0), local=16, crs=512)
    link.registers |= {at("STATE") + 4: 1000, at("STATE") + 8: 1}
    board.cycles, seen = 77, []

    async def serve(launch, places, limit, result, **options):
        seen.append((board.cycles, board._began, board._levels, limit))
        result.status = "ok"

    monkeypatch.setattr(board, "serve", serve)
    assert board.run(launch, 500).status == "ok"
    assert seen == [(0, 1000 + (1 << 32), 0, 500)]
    assert link.lines[MEMORY_BASE][:16] == launch.memory.read(MEMORY_BASE, 16) != bytes(16)
    assert link.writes[0][0] == at("CONTROL")
    needed = board.memory.end - MEMORY_BASE
    board.size = needed
    assert board.run(prepare(module, memory=Memory(heap, 0), local=16, crs=512), 500).status == "ok"
    board.size = needed - 1
    with pytest.raises(
        BoardError, match=r"^the launch needs [\d,]+ bytes of memory, the board has "
    ):
        board.run(prepare(module, memory=Memory(heap, 0), local=16, crs=512), 500)


def test_lines_are_read_once_until_the_machine_may_have_changed_them(link):
    memory = Memory(MEMORY_BASE, 4096)
    base, other = memory.allocate("a", 200), memory.allocate("fixed", 64)
    memory.mark_constant(other)
    found = BoardMemory(memory, link, BoardImage(MEMORY_BASE, MEMORY_BYTES))
    assert found.read(base + 60, 8) == bytes(8) and link.asked == [base, base + 64]
    found.read(base, 128)
    assert link.asked == [base, base + 64]
    found.read(other, 1)
    found.forget()
    found.forget()
    link.lines[base] = bytes([5] * 64)
    assert found.read(base, 1) == b"\5"
    found.forget()
    link.lines[base] = bytes([6] * 64)
    assert found.read(base, 1) == b"\6"
    found.read(other, 1)
    assert link.asked[2:] == [other, base, base]
    with pytest.raises(MemoryFaultError):
        found.read(base + 256, 1)


def test_bytes_are_written_by_lines_and_their_masks(link):
    memory = Memory(MEMORY_BASE, 4096)
    base = memory.allocate("a", 256)
    found = BoardMemory(memory, link, BoardImage(MEMORY_BASE, MEMORY_BYTES))
    link.lines = {base + 64 * number: bytes([255] * 64) for number in range(4)}
    found.write(base + 60, bytes(range(1, 73)))
    expected = bytes([255] * 60) + bytes(range(1, 73)) + bytes([255] * 124)
    assert found.read(base, 256) == expected
    assert link.sent == [base, base + 64, base + 128]
    # the content of a whole line that was sent is known
    assert link.asked == [base, base + 128, base + 192]
    found.forget()
    found.write(base, b"\7")
    found.forget()  # knowledge from before the write is discarded again
    link.lines[base] = bytes(64)
    assert found.read(base, 1) == b"\0"
    copy = found.copy()
    assert copy.read(base, 256) == found.read(base, 256)
    assert type(copy) is Memory


# Addresses


@pytest.mark.parametrize(
    ("default", "size", "expected"),
    [(1 << 20, 1 << 20, 1 << 16), (100, 1 << 20, 100), (1 << 20, 160, 10)],
)
def test_a_kernels_output_has_a_sixteenth_of_the_memory_at_most(default, size, expected):
    assert share(default, size) == expected


@pytest.mark.parametrize(
    ("spare", "slots", "sizes", "expected"),
    [
        (1 << 30, 4, (16, 512, 4096, 4096), (4096, 4096)),
        (0, 4, (16, 512, 4096, 4096), (16, 512)),
        (4 * (512 + 512 + 512 * 16), 4, (16, 512, 4096, 4096), (16 + 160, 512 + 3584)),
        (4 * 1024, 4, (16, 512, 4096, 4096), (32, 512)),
        (4 * 1536, 4, (16, 512, 4096, 4096), (32, 1024)),
        (1 << 30, 4, (8192, 8192, 4096, 4096), (8192, 8192)),
    ],
)
def test_what_memory_is_left_goes_to_stacks_and_to_local_memory(spare, slots, sizes, expected):
    local, crs = stack_sizes(spare, slots, *sizes)
    assert (local, crs) == expected
    block = -(-(32 * local + crs) // CRS_GRANULE) * CRS_GRANULE
    least = -(-(32 * sizes[0] + sizes[1]) // CRS_GRANULE) * CRS_GRANULE
    assert slots * (block - least) <= max(spare, 0)
    assert placing.round_up(513, 512) == 1024 and placing._round_down(1023, 512) == 512
    assert placing._round_down(-5, 512) == 0


def test_a_launch_whose_least_stacks_just_fit_has_them_and_one_byte_less_is_too_little(monkeypatch):
    module = load(assemble(".kernel k\nNOP\nEXIT\n", "k.sass"))
    slots = 4

    def made(size):
        def make(local, crs):
            memory = Memory(MEMORY_BASE + 4096, 0)
            return prepare(module, memory=memory, local=local, crs=crs)

        monkeypatch.setattr(Memory, "room", lambda _memory, _alignment: size)
        return launch_with_stacks(make, slots, 4096, module.kernels["k"])

    least = 512  # a stack of one granule, and no local memory
    launch = made(slots * least)
    assert (launch.local, launch.crs, launch.warp_block) == (0, 512, least)
    with pytest.raises(OutOfMemoryError, match="no room for 2048 bytes"):
        made(slots * least - 1)
    assert (made(1 << 30).local, made(1 << 30).crs) == (4096, CRS_DEFAULT)


# Serial line into a simulation


class Box:
    def __init__(self, value=0):
        self.value = value


class Echo:
    """A cable whose board sends each byte back inverted, some bytes at each poll."""

    def __init__(self, bits, each):
        size = 1 << bits
        self.put, self.taken, self.given, self.busy = (Box() for _ in range(4))
        self.outgoing, self.incoming = (fake(data=[Box() for _ in range(size)]) for _ in range(2))
        self.size, self.each, self.cycles, self.most = size, each, [], 0

    async def run(self, cycles):
        self.cycles.append(cycles)
        waiting = (self.put.value - self.taken.value) % self.size
        self.most = max(self.most, waiting)
        for _ in range(min(self.each, waiting)):
            byte = self.outgoing.data[self.taken.value].value
            self.incoming.data[self.given.value].value = byte ^ 0xFF
            self.taken.value = (self.taken.value + 1) % self.size
            self.given.value = (self.given.value + 1) % self.size
        self.busy.value = int(self.put.value != self.taken.value)


@pytest.fixture
def serve(monkeypatch):
    """Serves a line with such a cable until a test has read all that it expects; yields the cable
    and the bytes.
    """

    def run(content, each, bits=4):
        cable, ctx = Echo(bits, each), fake()
        ctx.get = lambda box: box.value
        ctx.set = lambda box, value: setattr(box, "value", value)
        near, far = pty.openpty()
        tty.setraw(far)
        os.write(far, content)
        board: Any = stand_in.StandIn.__new__(stand_in.StandIn)
        board._cable, board._line, board._ended, board._more = cable, near, False, 0
        monkeypatch.setattr(stand_in, "_RING_BITS", bits)
        waits, looks, received = [], [], bytearray()
        honest = stand_in.select.select

        def looked(reading, writing, failing, wait):
            waits.append(wait)
            looks.append(1)
            if honest([far], [], [], 0)[0]:
                received.extend(os.read(far, 4096))
            board._ended = len(looks) > 40
            return honest(reading, writing, failing, 0)

        async def simulated(_ctx, cycles):
            await cable.run(cycles)

        monkeypatch.setattr(stand_in, "run_cycles", simulated)
        monkeypatch.setattr(stand_in, "select", fake(select=looked))
        done(board._serve(ctx))
        os.close(near)
        os.close(far)
        return cable, bytes(received), waits

    return run


@pytest.mark.parametrize("each", [1, 3, 15])
def test_a_line_carries_all_bytes_both_ways_through_small_rings(serve, each):
    content = bytes(range(1, 31))
    cable, received, _ = serve(content, each)
    assert received == bytes(byte ^ 0xFF for byte in content)
    assert cable.most <= 15  # a full ring must not be taken for an empty one


def test_time_stands_still_while_nothing_happens(serve):
    """Two idle polls are simulated; then the line is waited for, and no cycle is simulated."""
    cable, received, waits = serve(b"ab", 15)
    assert received == bytes([0xFF ^ ord("a"), 0xFF ^ ord("b")])
    assert set(cable.cycles) == {stand_in._CYCLES} and len(cable.cycles) < 6
    first = waits.index(stand_in._IDLE)
    assert set(waits[:first]) == {0} and set(waits[first:]) == {stand_in._IDLE} and first < 6


def test_reading_a_port_waits_for_a_byte_and_takes_what_is_there():
    port: Any = PySerialPort.__new__(PySerialPort)
    asked = []
    for waiting, size, expected in ((0, 100, 1), (5, 100, 5), (500, 100, 100)):
        port._port = fake(in_waiting=waiting, read=lambda count: asked.append(count))
        port.read(size)
        assert asked.pop() == expected


class Loop(wiring.Component):
    """A replacement of the machine that sends back the bytes on its line."""

    receive: In(1)
    transmit: Out(1)
    traffic: Out(1)

    def __init__(self, *arguments, **options):
        super().__init__()
        self.sm = fake(busy=Signal())

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.transmit.eq(self.receive)
        return m


def test_bytes_in_the_ring_go_over_the_line_and_come_into_the_other(monkeypatch):
    monkeypatch.setattr(stand_in, "BoardMachine", Loop)
    monkeypatch.setattr(stand_in, "_RING_BITS", 3)
    cable = stand_in._Cable(PRESETS["tiny"], 12_000_000, Memory, None)
    content, found = [0x55, 0x00, 0xFF, 0x81, 0x12], []

    async def testbench(ctx):
        assert not ctx.get(cable.busy)
        for number, byte in enumerate(content):
            ctx.set(cable.outgoing.data[number], byte)
        ctx.set(cable.put, len(content))
        assert ctx.get(cable.busy)
        while ctx.get(cable.busy):
            await ctx.tick()
        assert ctx.get(cable.taken) == len(content)
        await ctx.tick().repeat(20)
        found.extend(ctx.get(cable.incoming.data[at]) for at in range(ctx.get(cable.given)))

    simulator = Simulator(cable)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run_until(1e-3)
    assert found == content


def test_consecutive_lines_are_asked_for_together_up_to_a_limit():
    lines = [64 * number for number in (3, 1, 2, 7, *range(100, 170))]
    assert list(consecutive_lines(lines)) == [(64, 3), (7 * 64, 1), (6400, 64), (164 * 64, 6)]
    assert list(consecutive_lines([])) == []


def test_a_port_says_how_much_it_has_written():
    port: Any = PySerialPort.__new__(PySerialPort)
    port._port = fake(write=len)
    assert port.write(b"abc") == 3


def test_a_stand_in_ends_when_it_is_told_to():
    made = stand_in.StandIn.__new__(stand_in.StandIn)
    made._ended = False
    made.end()
    assert made._ended is True
