"""Verilog whose registers and memories have arbitrary contents at power-up, as on an ASIC.

``python -m testbench.fpga.power_up`` executes a kernel's run on the machine in Icarus Verilog, with
a random word in every register and in every word of the memories that are written. After a reset
every relevant output must be the one of the project's simulation: valid signals in every cycle, the
others while they are valid.

:func:`play` does this for any component, with random contents (:class:`RandomContents`) or with
none (:func:`without_contents`). In the second case the simulator's unknown value propagates from
the contents, and an output bit must be correct if it is known. That is exact for data, but not for
decisions: Verilog executes the ``else`` of an ``if`` with an unknown condition. It is therefore
suitable for a unit like the stack, not for the whole machine.

Exit code 0: all outputs are equal. 1: an output differs. 2: the check is not possible; one line on
stderr has the reason.
"""

import re
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from random import Random

from amaranth.lib import wiring

from rtl.fpga.flat import FlatSm
from rtl.params import PRESETS
from sim.fpga.ecp5 import missing_tool
from sim.fpga.verilog import verilog_of
from sim.launch_options import number_from_one
from sim.support.command import Parser, print_text
from testbench.fpga.replay import Port, Recording, ReplayError
from testbench.fpga.replay_command import run_replay_command

_WORD_BITS = 32
_MODULE = re.compile(r"^module .*?^endmodule$", re.MULTILINE | re.DOTALL)
_CONTENTS = re.compile(
    r"^  initial begin\n    (\S+?) ?\[0\] = [^\n]*\n(?:    \S+ ?\[\d+\] = [^\n]*\n)*  end\n",
    re.MULTILINE,
)
"""The initial contents of a memory."""
_WORD = re.compile(r"= (\d+)'[bhd]\w+;")
_REGISTER = re.compile(r"^(  reg (?:\[(\d+):0\] )?\S+ +?)= \d+'[bhd]\w+;$", re.MULTILINE)
_RESET_CYCLES = 2
_TELLS = ("valid", "ready", "interrupt", "busy")
"""Suffixes of outputs that determine whether others are relevant."""
_BYTE_BITS = 8


def missing() -> str | None:
    """Returns why no Verilog can be simulated here, in one line; None if it can."""
    if (reason := missing_tool("yosys")) is not None:
        return reason
    return None if shutil.which("iverilog") else "iverilog is not installed"


def _with_contents(
    text: str,
    of_register: Callable[[re.Match[str]], str],
    of_memory: Callable[[re.Match[str]], str],
) -> str:
    """Replaces the initial values of registers and written memories in Verilog of yosys."""

    def of_module(module: re.Match[str]) -> str:
        def of_any_memory(contents: re.Match[str]) -> str:
            is_written = re.search(
                rf"^ +{re.escape(contents[1])} ?\[.*<= ", module[0], re.MULTILINE
            )
            return of_memory(contents) if is_written else contents[0]

        return _REGISTER.sub(of_register, _CONTENTS.sub(of_any_memory, module[0]))

    return _MODULE.sub(of_module, text)


def without_contents(text: str) -> str:
    """Removes the initial values of registers and written memories from Verilog of yosys, which
    makes them unknown.
    """
    return _with_contents(text, lambda register: f"{register[1]};", lambda _contents: "")


class RandomContents:
    """Replaces the initial values of registers and written memories in Verilog of yosys by random
    ones.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def __call__(self, text: str) -> str:
        return _with_contents(text, self._register, self._memory)

    def _number(self, bits: int) -> str:
        return f"{bits}'h{self._random.getrandbits(bits):x};"

    def _register(self, register: re.Match[str]) -> str:
        return f"{register[1]}= {self._number(int(register[2] or 0) + 1)}"

    def _memory(self, contents: re.Match[str]) -> str:
        return _WORD.sub(lambda word: f"= {self._number(int(word[1]))}", contents[0])


def _counts(port: Port, names: Collection[str]) -> str:
    """Returns a Verilog expression of the relevant bits of an output, given the names of all
    outputs.
    """
    every_bit = f"{{{port.width}{{1'b1}}}}"
    stream, _, field = port.name.rpartition("_")
    if port.name.endswith(_TELLS) or f"{stream}_valid" not in names:
        return every_bit
    if field not in ("data", "mask") or f"{stream}_write" not in names:
        return f"{{{port.width}{{out_{stream}_valid}}}}"
    if field == "mask":
        return f"{{{port.width}{{out_{stream}_valid & out_{stream}_write}}}}"
    mask = ", ".join(
        f"{{{_BYTE_BITS}{{out_{stream}_mask[{byte}]}}}}"
        for byte in reversed(range(port.width // _BYTE_BITS))
    )
    return f"({{{port.width}{{out_{stream}_valid & out_{stream}_write}}}} & {{{mask}}})"


def _bench(recording: Recording, compares_all: bool) -> str:
    """Returns Verilog that replays a recording on the module ``top`` and prints the first
    difference, or the number of cycles.

    If ``compares_all`` is true, irrelevant bits are compared as well, if they are known.
    """
    ports, cycles = recording.ports, len(recording.rows)
    width = _WORD_BITS * recording.rows.shape[1]

    def recorded(port: Port) -> str:
        first = _WORD_BITS * port.first
        return f"row[{first + port.width - 1}:{first}]"

    def check(port: Port) -> str:
        found, expected = f"out_{port.name}", recorded(port)
        # A known bit that differs makes the whole 1; without one it is x if some bits are unknown.
        counted = f"({found} ^ {expected})" + ("" if compares_all else f" & {_counts(port, names)}")
        wrong = f"|({counted}) {'!== 0' if port.name.endswith(_TELLS) else '=== 1'}"
        return (
            f'if ({wrong}) begin $display("cycle %0d: {port.name} is %h, not %h", cycle, {found}, {expected}); '
            f"$finish(0); end"
        )

    outputs = [port for port in ports if not port.is_input]
    names = {port.name for port in outputs}
    wires = "\n  ".join(f"wire [{port.width - 1}:0] out_{port.name};" for port in outputs)
    joined = ", ".join(
        f".{port.name}({recorded(port) if port.is_input else 'out_' + port.name})" for port in ports
    )
    checks = "\n      ".join(map(check, outputs))
    return f"""\
module bench;
  reg clk = 0, rst = 1;
  integer cycle;
  reg [{width - 1}:0] rows [0:{cycles - 1}];
  reg [{width - 1}:0] row;
  {wires}
  top top(.clk(clk), .rst(rst), {joined});
  initial begin
    $readmemh("rows.hex", rows);
    row = rows[0];
    repeat ({_RESET_CYCLES}) begin #5 clk = 1; #5 clk = 0; end
    rst = 0;
    for (cycle = 0; cycle < {cycles}; cycle = cycle + 1) begin
      row = rows[cycle];
      #5;
      {checks}
      clk = 1;
      #5 clk = 0;
    end
    $display("%0d", cycle);
    $finish(0);
  end
endmodule
"""


def play(
    component: wiring.Component,
    recording: Recording,
    folder: Path,
    say: Callable[[str], None],
    contents: Callable[[str], str],
) -> int:
    """Replays a recording on a component with flat ports, whose Verilog gets its initial contents
    from ``contents``: :func:`without_contents` or :class:`RandomContents`.

    Returns in how many cycles the outputs were equal. The tools' files are left in ``folder``.
    Raises ReplayError with the first difference, FpgaError if a tool fails.
    """
    return play_text(verilog_of(component, folder, say), recording, folder, say, contents)


def play_text(
    text: str,
    recording: Recording,
    folder: Path,
    say: Callable[[str], None],
    contents: Callable[[str], str],
) -> int:
    """Replays a recording as :func:`play` does, on the Verilog of a component."""
    (folder / "contents.v").write_text(contents(text), encoding="utf-8")
    (folder / "bench.v").write_text(
        _bench(recording, contents is without_contents), encoding="utf-8"
    )
    (folder / "rows.hex").write_text(
        "".join(
            "".join(f"{word:08x}" for word in reversed(row)) + "\n"
            for row in recording.rows.tolist()
        ),
        encoding="ascii",
    )
    say("the run again")
    output = ""
    for command in (
        ["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", "bench.v", "contents.v"],
        ["vvp", "-n", "bench.vvp"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode or done.stderr:
            raise ReplayError(
                f"{command[0]}: {(done.stderr or done.stdout).strip().partition(chr(10))[0]}"
            )
        output = done.stdout.strip()
    if not output.isdecimal():
        raise ReplayError(output.partition("\n")[0])
    return int(output)


def _check(
    options: Namespace, recording: Recording, folder: Path, say: Callable[[str], None]
) -> None:
    text = verilog_of(FlatSm(PRESETS[options.preset]), folder, say)
    for seed in range(1, options.seeds + 1):
        cycles = play_text(text, recording, folder, say, RandomContents(Random(seed)))
        print_text(f"seed {seed}: {cycles:,} cycles with the outputs of the simulation\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser(
        "testbench.fpga.power_up",
        "Plays a kernel's run on the machine as Verilog that holds random words at power-up.",
        "--preset tiny --seeds 3",
    )
    parser.add_argument(
        "--seeds",
        type=number_from_one,
        default=3,
        metavar="N",
        help="how many times, each with other words (default: 3)",
    )
    return run_replay_command(arguments, parser, "power-up", missing, _check)


if __name__ == "__main__":
    sys.exit(main())
