"""Verilog in a simulator of four states.

``python -m testbench.fpga.four_states`` plays a kernel's run on the machine in Icarus Verilog, where no register and no
memory that is written has a value at power-up.

So it is with an ASIC: a reset must make known what counts, and what is not known must not get there. Every output bit
that is known has to be what it was in the project's simulation; those that say whether others count have to be known in
every cycle. Exit code 0: all is the same. 1: it is not. 2: it could not be done; one line on stderr says why.
"""

import re
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from amaranth.lib import wiring

from rtl.fpga.flat import FlatSm
from rtl.params import PRESETS
from sim.command import CommandError, Parser, print_text
from sim.ecp5 import missing_tool
from sim.engine import choose
from sim.launch_options import number_from_one
from sim.verilog import verilog_of
from testbench.fpga.replay import Port, Recording, ReplayError, record, recursion

_WORD_BITS = 32
_MODULE = re.compile(r"^module .*?^endmodule$", re.MULTILINE | re.DOTALL)
_CONTENT = re.compile(r"^  initial begin\n    (\S+?) ?\[0\] = [^\n]*\n(?:    \S+ ?\[\d+\] = [^\n]*\n)*  end\n",
                      re.MULTILINE)
_REGISTER = re.compile(r"^(  reg (?:\[\d+:\d+\] )?\S+ +?)= \d+'[bhd]\w+;$", re.MULTILINE)
_RESET_CYCLES = 2
_TELLS = ("valid", "ready", "interrupt", "busy")
"""How the names of outputs end that say whether others count."""


def missing() -> str | None:
    """Why there is no Verilog to be simulated here, in one line; None when there can be."""
    if (reason := missing_tool("yosys")) is not None:
        return reason
    return None if shutil.which("iverilog") else "iverilog is not installed"


def without_values(text: str) -> str:
    """Verilog as Yosys writes it, without the first values of registers and of memories that are written."""
    def of_module(module: re.Match[str]) -> str:
        def of_memory(content: re.Match[str]) -> str:
            writes = re.search(rf"^ +{re.escape(content[1])} ?\[.*<= ", module[0], re.MULTILINE)
            return content[0] if writes is None else ""
        return _REGISTER.sub(r"\1;", _CONTENT.sub(of_memory, module[0]))
    return _MODULE.sub(of_module, text)


def _bench(recording: Recording) -> str:
    """The Verilog that plays a recording on the module ``top``: the first difference, or the number of cycles."""
    ports, cycles = recording.ports, len(recording.rows)
    width = _WORD_BITS * recording.rows.shape[1]

    def recorded(port: Port) -> str:
        first = _WORD_BITS * port.first
        return f"row[{first + port.width - 1}:{first}]"

    def check(port: Port) -> str:
        found, expected = f"out_{port.name}", recorded(port)
        # A bit that is known and another one makes the whole 1; if none does, it is x where bits are not known.
        wrong = f"|({found} ^ {expected}) {'!== 0' if port.name.endswith(_TELLS) else '=== 1'}"
        return (f'if ({wrong}) begin $display("cycle %0d: {port.name} is %h, not %h", cycle, {found}, {expected}); '
                f"$finish(0); end")

    outputs = [port for port in ports if not port.is_input]
    wires = "\n  ".join(f"wire [{port.width - 1}:0] out_{port.name};" for port in outputs)
    joined = ", ".join(f".{port.name}({recorded(port) if port.is_input else 'out_' + port.name})" for port in ports)
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


def play(component: wiring.Component, recording: Recording, folder: Path, say: Callable[[str], None]) -> int:
    """Plays a recording on a component, its ports plain, without values at power-up; returns how many cycles had its
    outputs. The tools' files are left in ``folder``. ReplayError with the first difference, FpgaError when a tool
    fails.
    """
    text = without_values(verilog_of(component, folder, say))
    (folder / "unknown.v").write_text(text, encoding="utf-8")
    (folder / "bench.v").write_text(_bench(recording), encoding="utf-8")
    (folder / "rows.hex").write_text("".join(
        "".join(f"{word:08x}" for word in reversed(row)) + "\n" for row in recording.rows.tolist()), encoding="ascii")
    say("the run again")
    told = ""
    for command in (["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", "bench.v", "unknown.v"],
                    ["vvp", "-n", "bench.vvp"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode or done.stderr:
            raise ReplayError(f"{command[0]}: {(done.stderr or done.stdout).strip().partition(chr(10))[0]}")
        told = done.stdout.strip()
    if not told.isdecimal():
        raise ReplayError(told.partition("\n")[0])
    return int(told)


def _play(options: Namespace) -> int:
    start = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - start:4.0f} s  {what}", file=sys.stderr, flush=True)

    if (reason := missing()) is not None:
        raise CommandError(reason)
    params, folder = PRESETS[options.preset], options.build or Path("build", f"unknown-{options.preset}")
    try:
        say("a run to record")
        recording = record(params, choose()[0], recursion(options.threads))
        cycles = play(FlatSm(params), recording, folder, say)
    except ReplayError as error:
        print_text(f"{error}\n")
        return 1
    print_text(f"{cycles:,} cycles with the outputs of the simulation\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser("testbench.fpga.four_states",
                    "Plays a kernel's run on the machine as Verilog, of which nothing is known at power-up.",
                    "--preset tiny")
    parser.add_argument("--preset", choices=PRESETS, default="tiny", help="the machine (default: tiny)")
    parser.add_argument("--threads", type=number_from_one, default=6, metavar="N",
                        help="of the kernel, which computes Fibonacci numbers by recursion (default: 6)")
    parser.add_argument("--build", type=Path, metavar="DIR", help="the tools' files; default build/unknown-PRESET")
    return parser.run(arguments, _play)


if __name__ == "__main__":
    sys.exit(main())
