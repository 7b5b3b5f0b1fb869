"""The host of a board: a line that loses, damages and adds bytes, memory access by lines, and
launches that must fit.
"""

import os
import pty
from random import Random

import pytest

from rtl.fpga.link import ANSWER, VERSION, LinkCommand, LinkStatus
from rtl.fpga.machine import MEMORY_BASE
from sim.board import link as host_link
from sim.board.errors import BoardError
from sim.board.frames import FrameFinder, LinkFrame
from sim.board.link import Link
from sim.board.memory import BoardImage, BoardMemory
from sim.board.placing import fit
from sim.debug import main as debug
from sim.launch import prepare
from sim.launch.descriptor import place_descriptor
from sim.launch.memory import Memory, MemoryFaultError
from sim.launch.runtime import HEAP_MEMORY, OUTPUT_MEMORY
from sim.run import main as run
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load

LINES = 64


class FakeBoard:
    """The board's side of a line, as the protocol defines it; ``trouble`` is the probability of a
    wrong byte, in each direction.
    """

    def __init__(self, trouble=0.0, seed=1):
        self.random, self.trouble = Random(seed), trouble
        self.registers, self.writes, self.lines = (
            {},
            [],
            {MEMORY_BASE + 64 * at: bytes(64) for at in range(LINES)},
        )
        self.finder, self.pending, self.expected = FrameFinder(), bytearray(), 0
        self.clock = 0

    def monotonic(self):
        """Time passes while no byte arrives."""
        return self.clock

    def _line(self, content):
        """Transmits bytes on the line, possibly with errors."""
        if not self.trouble:
            return content
        out = bytearray()
        for byte in content:
            chance = self.random.random() / self.trouble
            if chance >= 3:
                out.append(byte)
            elif chance >= 2:
                out.append(byte ^ 1 << self.random.randrange(8))
            elif chance >= 1:
                out += bytes([byte, self.random.randrange(256)])
        return bytes(out)

    def write(self, content):
        for frame in self.finder.take(self._line(content)):
            self.pending += self._line(b"".join(answer.sent() for answer in self._answers(frame)))

    def read(self, size):
        self.clock += not self.pending
        taken = bytes(self.pending[: self.random.randint(1, 300)])
        del self.pending[: len(taken)]
        return taken

    def close(self):
        pass

    def _answers(self, frame):
        def answer(status, more=b""):
            return LinkFrame(frame.number, frame.command | ANSWER, bytes([status.value]) + more)

        content, number = frame.content, int.from_bytes
        done = LinkStatus.DONE
        match frame.command:
            case LinkCommand.HELLO.value:
                self.expected = (frame.number + 1) % 256
                yield answer(done, bytes([VERSION]))
            case LinkCommand.READ_REGISTERS.value:
                first = number(content[1:], "little")
                yield answer(
                    done,
                    b"".join(
                        self.registers.get(first + 4 * at, 0).to_bytes(4, "little")
                        for at in range(content[0])
                    ),
                )
            case LinkCommand.WRITE_REGISTER.value:
                if frame.number == self.expected:
                    self.expected = (self.expected + 1) % 256
                    self.writes.append(
                        (number(content[4:], "little"), number(content[:4], "little"))
                    )
                yield answer(done)
            case LinkCommand.READ_LINES.value:
                for at in range(number(content[:2], "little")):
                    address = number(content[2:], "little") + 64 * at
                    line = self.lines.get(address)
                    yield answer(
                        done if line is not None else LinkStatus.MEMORY,
                        address.to_bytes(5, "little") + (line or bytes(64)),
                    )
            case LinkCommand.WRITE_LINE.value:
                address, mask = number(content[72:], "little"), number(content[64:72], "little")
                if address in self.lines:
                    self.lines[address] = bytes(
                        new if mask >> at & 1 else old
                        for at, (new, old) in enumerate(
                            zip(content[:64], self.lines[address], strict=True)
                        )
                    )
                yield answer(done if address in self.lines else LinkStatus.MEMORY)


class CountingLink(Link):
    """A link that records which lines were sent and read."""

    def __init__(self, board):
        super().__init__(board, "fake")
        self.sent, self.asked = [], []

    def write_lines(self, lines):
        self.sent += lines
        return super().write_lines(lines)

    def read_lines(self, addresses):
        some = list(addresses)
        self.asked += some
        return super().read_lines(some)


@pytest.mark.parametrize("trouble", [0, 0.0005, 0.003])
def test_a_request_is_executed_once_on_a_line_with_errors(trouble, monkeypatch):
    board, random = FakeBoard(trouble, seed=3), Random(4)
    monkeypatch.setattr(host_link, "_TRIES", 200)
    monkeypatch.setattr(host_link, "time", board)
    link = Link(board, "fake", silence=1)
    expected, writes = {address: bytes(64) for address in board.lines}, []
    for _ in range(25):
        writes.append((random.randrange(1 << 24), random.getrandbits(32)))
        link.write_register(*writes[-1])
        board.registers = {0x100 + 4 * at: random.getrandbits(32) for at in range(70)}
        assert link.read_registers(0x100, 70) == list(board.registers.values())
        some = random.sample(sorted(expected), 20)
        expected |= {address: random.randbytes(64) for address in some}
        assert (
            link.write_lines({address: (expected[address], (1 << 64) - 1) for address in some})
            == []
        )
        assert link.read_lines(some) == {address: expected[address] for address in some}
    assert board.writes == writes
    assert board.lines == expected
    assert bool(link.repeated) == bool(trouble)


def test_lines_that_there_are_not():
    link = Link(FakeBoard(), "fake")
    end = MEMORY_BASE + 64 * LINES
    assert link.read_lines([end, end - 64, 0]) == {end: None, end - 64: bytes(64), 0: None}
    assert link.write_lines({end: (bytes(64), 1), end - 64: (bytes(64), 1)}) == [end]


def test_a_board_that_does_not_answer_is_reported(monkeypatch):
    class Silent(FakeBoard):
        def write(self, content):
            pass

    monkeypatch.setattr(host_link, "_TRIES", 3)
    with pytest.raises(BoardError, match=r"^port fake: no answer from a board$"):
        Link(Silent(), "fake", silence=0.001)


def test_a_board_that_answers_every_third_time_is_never_given_up(monkeypatch):
    """The silence is measured from the last answer on."""

    class Slow(FakeBoard):
        asked = 0

        def write(self, content):
            self.asked += 1
            if self.asked % 3 == 0:
                super().write(content)

    board = Slow()
    monkeypatch.setattr(host_link, "_TRIES", 4)
    monkeypatch.setattr(host_link, "time", board)
    link = Link(board, "fake", silence=1)
    lines = {MEMORY_BASE + 64 * at: (bytes([at]) * 64, (1 << 64) - 1) for at in range(LINES)}
    assert link.write_lines(lines) == []
    assert link.read_lines(lines) == {address: content for address, (content, _) in lines.items()}
    assert link.repeated >= 8


def test_a_port_that_goes_away():
    class Gone(FakeBoard):
        def read(self, size):
            raise OSError(5, "Input/output error")

    with pytest.raises(BoardError, match=r"^port fake: Input/output error$"):
        Link(Gone(), "fake")


def test_memory_on_a_board_is_that_of_the_launch():
    content, board = Memory(MEMORY_BASE, gap=0), FakeBoard()
    for name, size in (("a", 100), ("b", 300)):
        content.write(content.allocate(name, size, 64), bytes(at % 256 for at in range(size)))
    memory = BoardMemory(content, Link(board, "fake"), BoardImage(MEMORY_BASE, 64 * LINES))
    memory.load()
    assert memory.read(MEMORY_BASE + 10, 80) == content.read(MEMORY_BASE + 10, 80)
    memory.write(MEMORY_BASE + 60, b"across lines")
    assert memory.read(MEMORY_BASE + 58, 16) == b"\x3a\x3bacross lines\x48\x49"
    assert b"".join(board.lines.values())[60:72] == b"across lines"
    # Data that were read are cached until the machine has run.
    board.lines[MEMORY_BASE] = b"m" * 64
    assert memory.read(MEMORY_BASE, 2) != b"mm"
    memory.forget()
    assert memory.read(MEMORY_BASE, 2) == b"mm"
    assert memory.copy().read(MEMORY_BASE, 2) == b"mm"
    for address, size in ((MEMORY_BASE + 128 + 320, 1), (MEMORY_BASE + 440, 16), (0, 4)):
        with pytest.raises(MemoryFaultError):
            memory.read(address, size)
        with pytest.raises(MemoryFaultError):
            memory.write(address, bytes(size))


def test_a_board_is_sent_what_differs_and_read_where_the_machine_may_have_written():
    content, board = Memory(MEMORY_BASE, gap=0), FakeBoard()
    for name, size in (
        ("program", 128),
        ("data", 200),
        (OUTPUT_MEMORY, 128),
        (HEAP_MEMORY, 64),
        ("more", 64),
    ):
        content.allocate(name, size, 64)
    first = {name: base for name, (base, _) in content.regions.items()}
    content.mark_constant(first["program"])
    link, image = CountingLink(board), BoardImage(MEMORY_BASE, 64 * LINES)

    def launch(*stored, wrote=True, names=None):
        """Runs a kernel that stores to some regions; returns the lines that were sent and read."""
        link.sent, link.asked = [], []
        memory = BoardMemory(content, link, image)
        memory.load()
        memory.forget()
        for name in stored:
            board.lines[first[name]] = b"m" * 64
        if OUTPUT_MEMORY in stored:
            memory.read(first[OUTPUT_MEMORY], 10)
        memory.take_back(names, wrote=wrote, heap=False)
        return sorted(link.sent), sorted(link.asked)

    lines = {
        name: list(range(base, base + size, 64)) for name, (base, size) in content.regions.items()
    }
    data = lines["data"] + lines["more"]
    assert launch("data") == (sorted([*data, *lines["program"], *lines[OUTPUT_MEMORY]]), data)
    assert content.read(first["data"], 66) == b"m" * 64 + bytes(2)
    assert launch(OUTPUT_MEMORY, HEAP_MEMORY) == ([], sorted([*data, first[OUTPUT_MEMORY]]))
    assert content.read(first[OUTPUT_MEMORY], 2) == b"mm"
    assert content.read(first[HEAP_MEMORY], 2) == bytes(2)
    content.write(first["program"] + 64, b"patched")
    content.write(first["data"], b"new")
    assert launch(wrote=False) == ([first["data"], first["program"] + 64][::-1], [])
    assert board.lines[first["data"]][:4] == b"newm"
    # Memory that is not read is lost: the next launch has the host's content there.
    assert launch("data", "more", names={"more"}) == ([], lines["more"])
    assert launch(names=set()) == (lines["data"], [])
    assert board.lines[first["data"]][:4] == b"newm"
    # A range that is freed and allocated again is zero.
    content.free(first[OUTPUT_MEMORY])
    content.allocate("zeros", 128, 64)
    assert launch()[0] == sorted([*lines["data"], *lines[OUTPUT_MEMORY], *lines["more"]])
    assert board.lines[first[OUTPUT_MEMORY]] == bytes(64)


@pytest.mark.parametrize(
    ("size", "slots", "local", "crs"),
    [
        (1 << 20, 2, None, None),
        (1 << 16, 8, None, None),
        (1 << 16, 8, 16, None),
        (1 << 16, 8, None, 4096),
        (1 << 14, 2, None, None),
    ],
)
def test_a_launch_is_fitted_into_a_boards_memory(size, slots, local, crs):
    module = load(assemble(".kernel k\nEXIT\n", "k"))

    def place(local, crs, memory):
        launch = prepare(module, [], local=local, crs=crs, memory=memory)
        launch.memory.map("trap handler", launch.program_base + 512, 700)
        return launch, launch

    launch = fit(place, size, slots, local, crs)
    memory = launch.memory.copy()
    launch.allocate_local(slots, memory)
    place_descriptor(launch, memory)
    assert memory.end <= MEMORY_BASE + size
    assert min(base for base, _ in memory.regions.values()) == MEMORY_BASE
    assert local in (None, launch.local)
    assert crs in (None, launch.crs)
    if size == 1 << 20:
        assert (launch.local, launch.crs) == (4096, 4096)
    else:  # little is left
        assert (
            MEMORY_BASE + size - memory.end < slots * 1024 + 2048
            or launch.local == 4096
            or local
            or crs
        )


def test_a_launch_that_a_board_has_no_room_for():
    module = load(assemble(".kernel k\nEXIT\n", "k"))

    def place(local, crs, memory):
        launch = prepare(module, [], local=local, crs=crs, memory=memory)
        return launch, launch

    with pytest.raises(
        BoardError, match=r"^the launch needs [\d,]+ bytes of memory, the board has 65,536$"
    ):
        fit(place, 1 << 16, 8, local=1024)


@pytest.mark.parametrize("command", [run, debug])
def test_a_port_that_is_none_is_said_in_one_line(command, tmp_path, capsys):
    (tmp_path / "k.sass").write_text(".kernel k\nEXIT\n")
    (tmp_path / "nothing").write_text("")
    for port, message in (
        (tmp_path / "none", "No such file or directory"),
        (tmp_path / "nothing", "Inappropriate ioctl"),
        (None, "--engine board needs --port"),
    ):
        with pytest.raises(SystemExit, match="2"):
            command(
                [
                    str(tmp_path / "k.sass"),
                    "--engine",
                    "board",
                    *(["--port", str(port)] if port else []),
                ]
            )
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert message in error


def test_a_silent_port_is_said_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(host_link, "_TRIES", 2)
    (tmp_path / "k.sass").write_text(".kernel k\nEXIT\n")
    line, far = pty.openpty()
    port = os.ttyname(far)
    try:
        with pytest.raises(SystemExit, match="2"):
            run([str(tmp_path / "k.sass"), "--engine", "board", "--port", port])
    finally:
        os.close(line)
        os.close(far)
    assert capsys.readouterr().err == f"python -m sim.run: port {port}: no answer from a board\n"
