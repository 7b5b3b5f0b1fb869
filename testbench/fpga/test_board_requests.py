"""Repeated requests of a board's host, the size of one request, and the host's knowledge of the
board's memory, as in the manual's page on boards.
"""

from random import Random
from types import SimpleNamespace

import pytest

from rtl.fpga.link import ANSWER, LinkCommand, LinkStatus
from rtl.fpga.machine import MEMORY_BASE
from sim.board import link as host_link
from sim.board.errors import BoardError
from sim.board.frames import FrameFinder, LinkFrame
from sim.board.link import Link, open_port
from sim.board.memory import BoardImage, BoardMemory
from sim.launch.memory import Memory
from testbench.fpga.test_board_host import LINES, FakeBoard

ALL = (1 << 64) - 1
SILENCE = 4
DAMAGED = LinkFrame(0, LinkCommand.ANY.value | ANSWER, bytes([LinkStatus.DAMAGED.value]))


class WatchedBoard(FakeBoard):
    """A board on a line without errors, whose clock runs while its host reads and nothing arrives.

    It records requests and their times; the next ``deaf`` ones get no answer, or the answer that
    their frames are damaged.
    """

    def __init__(self):
        super().__init__()
        self.requests, self.deaf, self.answers_damaged = [], 0, False
        self.watcher = FrameFinder()

    def write(self, content):
        frames = self.watcher.take(content)
        self.requests += [(self.clock, frame) for frame in frames]
        for frame in frames:
            if not self.deaf:
                super().write(frame.sent())
            else:
                self.deaf -= 1
                if self.answers_damaged:
                    self.pending += DAMAGED.sent()

    @property
    def times(self):
        """Returns the times of the requests."""
        return [time for time, _ in self.requests]


@pytest.fixture
def board(monkeypatch):
    watched = WatchedBoard()
    monkeypatch.setattr(host_link, "time", watched)
    return watched


@pytest.fixture
def link(board):
    made = Link(board, "fake", silence=SILENCE)
    board.requests.clear()
    return made


LINE = (MEMORY_BASE + 64, (bytes(range(64)), ALL))
KINDS = {
    "read registers": lambda link: link.read_registers(0x100, 3),
    "write a register": lambda link: link.write_register(0x100, 3),
    "read lines": lambda link: link.read_lines([LINE[0]]),
    "write lines": lambda link: link.write_lines(dict([LINE])),
}
for_each_request = pytest.mark.parametrize("kind", KINDS)


@for_each_request
def test_each_repetition_waits_twice_as_long_and_the_sixth_attempt_is_the_last(board, link, kind):
    board.deaf = 100
    with pytest.raises(BoardError, match=r"^port fake: no answer from a board$"):
        KINDS[kind](link)
    begins = [0, 1, 1 + 2, 1 + 2 + 4, 1 + 2 + 4 + 8, 1 + 2 + 4 + 8 + 16]
    assert board.times == [SILENCE * begin for begin in begins]
    assert board.clock == SILENCE * (begins[-1] + 16)  # 16 is the most
    assert link.repeated == 6


@for_each_request
def test_a_request_that_arrived_damaged_is_repeated_at_once(board, link, kind):
    board.deaf, board.answers_damaged = 2, True
    KINDS[kind](link)
    assert board.times == [0, 0, 0] and board.clock == 0
    assert link.repeated == 2
    assert len({frame.content for _, frame in board.requests}) == 1


@pytest.mark.parametrize("kind", ["read registers", "write a register"])
def test_a_repetition_has_the_number_of_its_request(board, link, kind):
    board.deaf = 3
    KINDS[kind](link)
    KINDS[kind](link)
    numbers = [frame.number for _, frame in board.requests]
    assert numbers == [numbers[0]] * 4 + [numbers[0] + 1]


@for_each_request
def test_the_wait_is_short_again_after_an_answer(board, link, kind):
    for _ in range(3):
        board.requests.clear()
        board.clock, board.deaf = 0, 2
        KINDS[kind](link)
        assert board.times == [0, SILENCE, 3 * SILENCE]
        assert board.clock == 3 * SILENCE


def test_numbers_of_requests_are_bytes_and_come_again(board, link):
    for number in range(600):
        link.write_register(0x100 + 4 * number, number)
        assert link.read_registers(0x100, 1) == [0]
    assert board.writes == [(0x100 + 4 * number, number) for number in range(600)]
    for command in (LinkCommand.READ_REGISTERS, LinkCommand.WRITE_REGISTER):
        numbers = [frame.number for _, frame in board.requests if frame.command == command.value]
        assert numbers == [number % 256 for number in range(1, 601)]


@pytest.mark.parametrize("count", [1, 2, 62, 63, 64, 126, 127, 300])
def test_a_request_reads_63_registers_at_most(board, link, count):
    board.registers = {0x100 + 4 * at: 1000 + at for at in range(count + 100)}
    assert link.read_registers(0x100, count) == list(range(1000, 1000 + count))
    assert [frame.content[0] for _, frame in board.requests] == [
        *[63] * (count // 63),
        *[count % 63] * (count % 63 > 0),
    ]
    assert board.clock == 0


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [
        ([5], [(5, 1)]),
        ([7, 5, 6, 10], [(5, 3), (10, 1)]),
        (range(100), [(0, 64), (64, 36)]),
        (range(0, 6, 2), [(0, 1), (2, 1), (4, 1)]),
    ],
)
def test_a_request_reads_64_consecutive_lines_at_most(board, link, numbers, runs):
    addresses = [MEMORY_BASE + 64 * number for number in numbers]
    found = link.read_lines(addresses)
    assert found == {address: board.lines.get(address) for address in addresses}
    assert [
        (
            (int.from_bytes(frame.content[2:], "little") - MEMORY_BASE) // 64,
            int.from_bytes(frame.content[:2], "little"),
        )
        for _, frame in board.requests
    ] == runs
    assert board.clock == 0  # there are as many answers as lines, and no more are expected


def test_16_lines_are_written_before_answers_are_waited_for(board, link, monkeypatch):
    reads, honest = [], board.read
    monkeypatch.setattr(
        board, "read", lambda size: (reads.append(len(board.requests)), honest(size))[1]
    )
    lines = {MEMORY_BASE + 64 * at: (bytes([at]) * 64, ALL) for at in range(40)}
    assert link.write_lines(lines) == []
    assert sorted(set(reads)) == [16, 32, 40]
    assert board.clock == 0
    assert all(board.lines[address] == content for address, (content, _) in lines.items())


def test_only_lines_without_an_answer_are_written_again(board, link):
    lines = {MEMORY_BASE + 64 * at: (bytes([at]) * 64, ALL) for at in range(5)}
    board.deaf = 2  # the first two
    assert link.write_lines(lines) == []
    written = [int.from_bytes(frame.content[72:], "little") for _, frame in board.requests]
    assert written == [*lines, *list(lines)[:2]]
    assert board.times == [0] * 5 + [SILENCE] * 2
    assert link.repeated == 0  # some requests were answered: the line loses frames


def test_an_answer_to_another_request_is_no_answer(board, link):
    """It arrives late, after the request was repeated and answered."""
    late = LinkFrame(77, LinkCommand.READ_REGISTERS.value | ANSWER, bytes([0, 1, 2, 3, 4]))
    other = LinkFrame(1, LinkCommand.READ_LINES.value | ANSWER, bytes([0, 1, 2, 3, 4]))
    empty = LinkFrame(1, LinkCommand.READ_REGISTERS.value | ANSWER)
    board.registers[0x100] = 5
    board.pending += late.sent() + other.sent() + empty.sent()
    assert link.read_registers(0x100, 1) == [5]
    assert board.times == [0]


@pytest.mark.parametrize("status", [LinkStatus.ORDER, LinkStatus.UNKNOWN])
def test_a_request_that_the_board_refuses_is_an_error_with_its_reason(board, link, status):
    board._answers = lambda frame: [
        LinkFrame(frame.number, frame.command | ANSWER, bytes([status.value]))
    ]
    with pytest.raises(BoardError) as refused:
        link.write_register(0x100, 1)
    assert str(refused.value) == f"port fake: the board answers WRITE_REGISTER with {status.name}"


def test_a_board_with_another_protocol_is_refused(board):
    board._answers = lambda frame: [LinkFrame(frame.number, ANSWER, bytes([0, 2]))]
    with pytest.raises(BoardError) as refused:
        Link(board, "fake")
    assert str(refused.value) == "port fake: the board speaks version 2 of the protocol, not 1"


def test_a_port_needs_pyserial_and_says_so(monkeypatch):
    monkeypatch.setattr(host_link, "missing_extra", lambda extra: f"install the extra {extra}")
    with pytest.raises(BoardError) as refused:
        open_port("/dev/null")
    assert str(refused.value) == "install the extra serial"


# The host's knowledge of the board's memory


BASE, END = MEMORY_BASE, MEMORY_BASE + 64 * 3 * LINES


UNKNOWN = ("unknown", bytes(64))


def change(account, first, end, old, new):
    """Moves lines in one state to another."""
    for line in range(first, end, 64):
        state, content = account.get(line, UNKNOWN)
        if state == old:
            account[line] = new, content


@pytest.mark.parametrize("seed", range(8))
def test_what_is_known_of_a_boards_lines_is_what_a_plain_account_has(seed):
    """The model stores for each line its content, and whether it is known ("same"), was known
    before the machine ran ("ran"), or may stay on the board whatever it is ("newer").
    """
    random, image, account = Random(seed), BoardImage(BASE, END - BASE), {}
    launch = SimpleNamespace(content=bytearray(END - BASE))

    def read(first, size):
        return bytes(launch.content[first - BASE : first - BASE + size])

    for _ in range(200):
        first = BASE + 64 * random.randrange(3 * LINES)
        end = min(END, first + 64 * random.choice([1, 2, 7, LINES, LINES + 1, 3 * LINES]))
        match random.randrange(7):
            case 0 | 1:
                for line in range(first, end, 64):
                    content = random.choice([read(line, 64), random.randbytes(64)])
                    image.put(line, content)
                    account[line] = "same", content
            case 2:
                image.mark_running(first, end)
                change(account, first, end, "same", "ran")
            case 3:
                image.idle(first, end)
                change(account, first, end, "ran", "same")
            case 4:
                keep = random.random() < 0.7
                image.drop(first, end, keep=keep)
                change(account, first, end, "ran", "newer" if keep else "unknown")
            case 5:
                image.forget(first, end)
                for line in range(first, end, 64):
                    account.pop(line, None)
            case 6:
                at = random.randrange(END - BASE)
                launch.content[at] ^= 1
        states = {line: account.get(line, UNKNOWN) for line in range(BASE, END, 64)}
        known = {line for line, (state, _) in states.items() if state == "same"}
        assert {line for line in states if image.has(line)} == known
        for keep in (False, True):
            good = ("same", "newer") if keep else ("same",)
            assert image.different(first, end, read, keep=keep) == [
                line
                for line in range(first, end, 64)
                if states[line][0] not in good or states[line][1] != read(line, 64)
            ]
    for line in known:
        assert image.read(line, 64) == account[line][1]


def test_lines_beyond_a_boards_memory_are_never_known():
    image = BoardImage(BASE, 128)
    for line in (BASE - 64, BASE + 128):
        image.put(line, bytes(64))
        assert not image.has(line)
    assert not image.has(BASE) and not image.has(BASE + 64)


@pytest.mark.parametrize("seed", range(6))
def test_what_a_host_reads_is_what_the_board_has_whatever_it_has_sent_and_read_before(
    link, board, seed
):
    """The machine changes memory only where a launch may write, and only if the host was notified."""
    random, content = Random(seed), Memory(MEMORY_BASE, gap=0)
    regions = [(content.allocate(name, size, 64), size) for name, size in (("a", 700), ("b", 900))]
    fixed = content.allocate("fixed", 300, 64)
    content.mark_constant(fixed)
    memory = BoardMemory(content, link, BoardImage(MEMORY_BASE, 64 * LINES))
    memory.load()
    for _ in range(150):
        base, size = random.choice([*regions, (fixed, 300)])
        first = random.randrange(size)
        count = random.choice([1, 5, 64, 128, size - first])
        count = min(count, size - first)
        match random.randrange(4):
            case 0:
                if base != fixed:
                    memory.write(base + first, random.randbytes(count))
            case 1:
                if base != fixed:
                    memory.write(
                        base + first // 64 * 64,
                        random.randbytes(64 if size > first // 64 * 64 + 64 else 1),
                    )
            case 2:
                start, _ = random.choice(regions)
                board.lines[start + 64 * random.randrange(10)] = random.randbytes(64)
                memory.forget()
            case 3:
                expected = b"".join(board.lines[line] for line in sorted(board.lines))
                at = base + first - MEMORY_BASE
                assert memory.read(base + first, count) == expected[at : at + count]
