"""The client in C with a simulated board behind its serial line: lines sent and read, and refused
calls.
"""

import json
import struct

import pytest

from rtl.fpga.machine import MEMORY_BASE
from sim.board.link import Link, open_port
from sim.board.machine import Board
from sim.cuda.command import main
from sim.cuda.device import Device
from sim.cuda.server import Server
from sim.launch.programs import read_program
from sim.runner import BoardRunner
from testbench.cuda.test_client import memory_left, run
from testbench.engine.designs import needs_compiled
from testbench.programs import PROGRAMS
from testbench.refusal import refused

pytestmark = needs_compiled
_LIMIT = 60_000
_BYTES = 1 << 16


class CountingLink(Link):
    """A link that counts the lines that were written and read."""

    def __init__(self, *arguments, **options):
        self.written, self.read = 0, 0
        super().__init__(*arguments, **options)

    def write_lines(self, lines):
        self.written += len(lines)
        return super().write_lines(lines)

    def read_lines(self, addresses):
        some = list(addresses)
        self.read += len(some)
        return super().read_lines(some)


@pytest.fixture
def link(port):
    made = CountingLink(open_port(port), port)
    yield made
    made.close()


@pytest.fixture(params=[True])
def server(port, link, request):
    """A server of the board, which compares every launch with the warp model, unless the parameter
    is False.
    """
    made = Server(Device(BoardRunner(Board(link, port), check=request.param), 1 << 30, _LIMIT))
    yield made
    made.close()
    made.device.memory.close()


@pytest.mark.parametrize("check", ["add", "errors", "shapes", "memory", "graphs"])
def test_calls_do_on_a_board_what_cuda_says(client, server, check):
    run(client, server, check)
    assert memory_left(server) == {}
    assert (server.device.memory.first, server.device.size) == (MEMORY_BASE, _BYTES)


def test_a_kernel_that_never_ends_is_given_up_and_the_next_one_runs(client, server):
    run(client, server, "endless")
    run(client, server, "add")
    assert [one.outcome.status for one in server.device.launches] == ["timeout", "ok"]


@pytest.mark.parametrize("server", [False], indirect=True)
def test_a_board_is_sent_only_what_has_changed(client, server, link):
    """The second program has its module and its numbers at the addresses of the first one: the
    board has these lines.
    """
    counts = []
    for launches in (1, 5):
        before = link.written, link.read
        run(client, server, "many", str(launches))
        counts.append((link.written - before[0], link.read - before[1]))
    (first, _), (written, read) = counts
    assert first > 15
    assert written < 5
    assert read == 5 * len(["the kernel's variable", *["numbers"] * 2])


@pytest.mark.parametrize(
    ("program", "words", "error"), [("hello.O3.cubin", [], 0), ("asserts.O3.cubin", [32], 710)]
)
def test_what_a_kernel_prints_and_asserts_on_a_board_is_read_back(server, program, words, error):
    """They are read from a buffer, only as far as it was filled. After a failed kernel the board is
    in the expected state.
    """
    device = server.device
    for _ in range(2):
        context = device.make_context()
        module = device.load(context, read_program(str(PROGRAMS / "runtime" / program)))
        _, kernel = device.find_kernel(context, module, "k")
        out = device.allocate(context, 256, 0)
        parameters = struct.pack(f"<Q{len(words)}I", out, *words)
        for _ in range(2 - bool(error)):
            output = device.launch(
                context, kernel, parameters, (1, 1, 1), (34 if error else 4, 1, 1), 0
            )
            assert context.error == error
            assert (len(output.text.splitlines()), len(output.failed)) == (
                (0, 2) if error else (7, 0)
            )
        device.release(context)


def test_the_command_runs_a_program_on_a_board(client, port, capfd, tmp_path):
    report = tmp_path / "report.json"
    on_board = ["--engine", "board", "--port", port, "--check", "--report", str(report)]
    assert main([*on_board, "--", str(client), "add"]) == 0
    assert json.loads(report.read_text())["preset"] == "tiny"
    printed, table = capfd.readouterr()
    assert printed == "ok\n"
    copied, refused, machine, _, row = table.splitlines()
    assert copied.startswith("warpstack: cuMemcpy: 128 bytes at 0x")
    assert machine == f"machine       tiny, board at {port}"
    assert refused.startswith("warpstack: cuMemFree: no allocation begins at 0x")
    assert row.split()[1:4] == ["add", "1", "32"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "board"], "--engine board needs --port"),
        (["--engine", "model", "--port", "{port}"], "--port needs --engine board"),
        (
            ["--engine", "board", "--port", "{port}", "--preset", "full"],
            "the board has preset tiny, not full",
        ),
        (
            ["--engine", "board", "--port", "{port}", "--memory", "1"],
            "--memory needs a simulation, which a board is not",
        ),
    ],
)
def test_what_a_board_cannot_do_is_said_in_one_line(port, capsys, arguments, message):
    error = refused(capsys, main, [*(one.format(port=port) for one in arguments), "--", "true"])
    assert message in error
