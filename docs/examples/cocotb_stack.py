"""The call/return stack as Verilog under cocotb: for those whose testbenches, or whose designs, are not in Amaranth.

Yosys writes the Verilog, as ``python -m sim.fpga --unit crs --warps 2 --lanes 4 --verilog crs.v`` does; Icarus Verilog
or Verilator simulates it. What each port means is said at the beginning of the Verilog.

    pip install -e '.[cocotb]'
    python docs/examples/cocotb_stack.py
    SIM=verilator python docs/examples/cocotb_stack.py
"""

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

try:
    import cocotb
    from cocotb.clock import Clock
    from cocotb.triggers import FallingEdge, RisingEdge
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner
except ModuleNotFoundError:
    sys.exit("cocotb is not installed: pip install -e '.[cocotb]'")

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from rtl.layouts import StackOperation, ThreadCode
from sim.fpga import command as fpga

STACK_GRANULES = 4
"""Of warp 0, each of 512 bytes; the field ``size`` of the port ``configuration`` begins with bit 62."""
CONFIGURATION = STACK_GRANULES << 62
ALL_EXITED = sum(ThreadCode.EXIT.value << 3 * thread for thread in range(32))
SIMULATORS = {"icarus": "iverilog", "verilator": "verilator"}
"""Name -> its program."""
PATIENCE = 10_000
"""Cycles until a request must have been taken, and until its result must be there."""
OLDEST_VERILATOR = (5, 36)
"""That cocotb 2.1 takes."""


class Memory:
    """What is behind the stack's memory port: lines of 64 bytes, answered a few cycles later.

    Attributes:
        writes, reads: Lines that were.
    """

    def __init__(self, dut: Any, latency: int = 5) -> None:
        self.dut, self.latency, self.lines = dut, latency, dict[int, int]()
        self.writes = self.reads = 0

    async def serve(self) -> None:
        """Serves requests, in their order."""
        dut, due, cycle = self.dut, list[tuple[int, dict[str, int]]](), 0
        dut.port_request_ready.value = 1
        while True:
            dut.port_response_valid.value = int(bool(due) and due[0][0] <= cycle)
            for name, value in (due[0][1] if due else {}).items():
                getattr(dut, f"port_response_{name}").value = value
            await FallingEdge(dut.clk)
            if dut.port_response_valid.value == 1 and dut.port_response_ready.value == 1:
                due.pop(0)
            if dut.port_request_valid.value == 1:
                write, tag, address = (int(getattr(dut, f"port_request_{name}").value)
                                       for name in ("write", "tag", "address"))
                if write:
                    self.lines[address] = int(dut.port_request_data.value)
                self.writes += write
                self.reads += 1 - write
                answer = {"write": write, "tag": tag, "error": 0, "data": self.lines.get(address, 0)}
                due.append((cycle + self.latency, answer))
            await RisingEdge(dut.clk)
            cycle += 1


async def ask(dut: Any, operation: StackOperation, **fields: int) -> dict[str, int]:
    """Asks the stack for something, and waits for what has become of it: the fields of its result."""
    for name, value in {"operand": 0, "mask": 0, "kind": 0, "codes": 0, "enable": 1, **fields}.items():
        getattr(dut, f"request_{name}").value = value
    dut.request_operation.value = operation.value
    dut.request_valid.value = 1
    for _ in range(PATIENCE):
        await FallingEdge(dut.clk)
        taken = dut.request_ready.value == 1
        await RisingEdge(dut.clk)
        if taken:
            break
    else:
        raise AssertionError(f"{operation.name} is not taken for {PATIENCE:,} cycles: request_ready is "
                             f"{dut.request_ready.value}")
    dut.request_valid.value = 0
    for _ in range(PATIENCE):
        await FallingEdge(dut.clk)
        if dut.result_valid.value == 1:
            result = {name: int(getattr(dut, f"result_{name}").value)
                      for name in ("resume", "empty", "error", "kind", "pc", "mask")}
            await RisingEdge(dut.clk)
            return result
        await RisingEdge(dut.clk)
    raise AssertionError(f"{operation.name} has no result after {PATIENCE:,} cycles: result_valid is "
                         f"{dut.result_valid.value}")


async def begin(dut: Any) -> Memory:
    """Starts the clock, resets the stack, and gives warp 0 a region of memory."""
    for name in ("valid", "warp", "pair"):
        getattr(dut, f"request_{name}").value = 0
    for name in ("valid", "write", "tag", "error", "data"):
        getattr(dut, f"port_response_{name}").value = 0
    dut.configuration.value = CONFIGURATION
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    memory = Memory(dut)
    cocotb.start_soon(memory.serve())
    assert (await ask(dut, StackOperation.LAUNCH))["error"] == WarpError.NONE.value
    return memory


@cocotb.test()
async def tokens_come_back_in_reverse(dut: Any) -> None:
    """More tokens than there is room for on chip: they are spilled, and read back."""
    memory, source = await begin(dut), random.Random(1)
    pushed = [(8 * source.randrange(1 << 20), 1 << number) for number in range(32)]
    for pc, mask in pushed:
        await ask(dut, StackOperation.PUSH, kind=TokenKind.DIVERGE.value, operand=pc, mask=mask)
    assert memory.writes > 0
    for pc, mask in reversed(pushed):
        result = await ask(dut, StackOperation.UNWIND)
        assert (result["resume"], result["pc"], result["mask"]) == (1, pc, mask)
        assert result["kind"] == TokenKind.DIVERGE.value
    assert memory.reads > 0
    dut._log.info("%d lines spilled, %d filled", memory.writes, memory.reads)


@cocotb.test()
async def an_empty_stack_ends_the_warp(dut: Any) -> None:
    """All threads have exited, and nobody waits."""
    await begin(dut)
    result = await ask(dut, StackOperation.UNWIND, codes=ALL_EXITED)
    assert (result["resume"], result["empty"]) == (0, 1)


def unusable(simulator: str) -> str | None:
    """Why a simulator cannot be used, in one line; None when it can be."""
    if shutil.which(SIMULATORS[simulator]) is None:
        return f"{SIMULATORS[simulator]} is not installed"
    if simulator != "verilator":
        return None
    said = subprocess.run(["verilator", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"Verilator (\d+)\.(\d+)", said)
    if found is not None and (int(found[1]), int(found[2])) < OLDEST_VERILATOR:
        oldest = "{}.{:03}".format(*OLDEST_VERILATOR)
        return (f"Verilator {found[1]}.{found[2]} is too old: cocotb takes {oldest} and later; SIM=icarus takes "
                f"Icarus Verilog")
    return None


def main(folder: str = "build/cocotb") -> None:
    """Writes the Verilog, simulates it, and tells how many tests have passed. The environment's SIM names the
    simulator; without it, it is one that is installed."""
    wanted = [os.environ["SIM"]] if os.environ.get("SIM") else list(SIMULATORS)
    if unknown := set(wanted) - SIMULATORS.keys():
        sys.exit(f"SIM={unknown.pop()}: there are {', '.join(SIMULATORS)}")
    reasons = {name: unusable(name) for name in wanted}
    simulator = next((name for name in wanted if reasons[name] is None), None)
    if simulator is None:
        sys.exit("; ".join(filter(None, reasons.values())))
    build = Path(folder).resolve()
    source = build / "crs.v"
    build.mkdir(parents=True, exist_ok=True)
    fpga.main(["--unit", "crs", "--warps", "2", "--lanes", "4", "--verilog", str(source), "--build",
               str(build / "yosys")])
    runner = get_runner(simulator)
    runner.build(sources=[source], hdl_toplevel="crs", build_dir=build, timescale=("1ns", "1ps"))
    here = Path(__file__)
    results = runner.test(hdl_toplevel="crs", test_module=here.stem, build_dir=build, test_dir=here.parent,
                          results_xml=str(build / "results.xml"))
    tests, failed = get_results(results)
    print(f"{simulator}: {tests - failed} of {tests} tests passed")
    sys.exit(int(failed > 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
