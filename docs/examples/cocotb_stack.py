"""The call/return stack as Verilog under cocotb: for those whose testbenches, or whose designs, are not in Amaranth.

Yosys writes the Verilog, Icarus Verilog or Verilator simulates it. Ports that are structures are vectors there; what
lies where in them is said by the layouts, which this testbench packs and unpacks them by.

    pip install -e '.[cocotb]'
    python docs/examples/cocotb_stack.py
    SIM=verilator python docs/examples/cocotb_stack.py
"""

import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from amaranth.lib import data

try:
    import cocotb
    from cocotb.clock import Clock
    from cocotb.triggers import FallingEdge, RisingEdge
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner
except ModuleNotFoundError:
    sys.exit("cocotb is not installed: pip install -e '.[cocotb]'")

from rtl.crs import CallReturnStack
from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from rtl.layouts import (
    StackConfiguration,
    StackOperation,
    ThreadCode,
    memory_request,
    memory_response,
    stack_request,
    stack_result,
)
from rtl.params import SmParams
from sim.verilog import verilog_of

PARAMS = SmParams(warps=2, lanes=4)
REQUEST, RESULT = stack_request(PARAMS), stack_result(PARAMS)
TO_MEMORY, FROM_MEMORY = memory_request(PARAMS.warp_bits), memory_response(PARAMS.warp_bits)
SIMULATORS = {"icarus": "iverilog", "verilator": "verilator"}
"""Name -> its program."""


def packed(layout: Any, **fields: Any) -> int:
    """The bits of a structure; fields that are not given are 0."""
    return data.Layout.cast(layout).const(fields).as_bits()


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
        dut, due, cycle = self.dut, list[tuple[int, int]](), 0
        dut.port__request__ready.value = 1
        while True:
            dut.port__response__valid.value = int(bool(due) and due[0][0] <= cycle)
            dut.port__response__payload.value = due[0][1] if due else 0
            await FallingEdge(dut.clk)
            if dut.port__response__valid.value == 1 and dut.port__response__ready.value == 1:
                due.pop(0)
            if dut.port__request__valid.value == 1:
                asked = data.Layout.cast(TO_MEMORY).from_bits(int(dut.port__request__payload.value))
                if asked.write:
                    self.lines[asked.address] = asked.data
                self.writes += asked.write
                self.reads += 1 - asked.write
                answer = packed(FROM_MEMORY, write=asked.write, tag=asked.tag, data=self.lines.get(asked.address, 0))
                due.append((cycle + self.latency, answer))
            await RisingEdge(dut.clk)
            cycle += 1


async def ask(dut: Any, operation: StackOperation, **fields: Any) -> Any:
    """Asks the stack for something, and waits for what has become of it."""
    dut.request__payload.value = packed(REQUEST, operation=operation, enable=1, **fields)
    dut.request__valid.value = 1
    while True:
        await FallingEdge(dut.clk)
        taken = dut.request__ready.value == 1
        await RisingEdge(dut.clk)
        if taken:
            break
    dut.request__valid.value = 0
    while True:
        await FallingEdge(dut.clk)
        if dut.result_valid.value == 1:
            result = data.Layout.cast(RESULT).from_bits(int(dut.result.value))
            await RisingEdge(dut.clk)
            return result
        await RisingEdge(dut.clk)


async def begin(dut: Any) -> Memory:
    """Starts the clock, resets the stack, and gives warp 0 a region of 4 granules."""
    for name in ("request__valid", "request__payload", "port__response__valid", "port__response__payload"):
        getattr(dut, name).value = 0
    dut.configuration.value = packed(StackConfiguration, size=4)
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    memory = Memory(dut)
    cocotb.start_soon(memory.serve())
    assert (await ask(dut, StackOperation.LAUNCH)).error == WarpError.NONE
    return memory


@cocotb.test()
async def tokens_come_back_in_reverse(dut: Any) -> None:
    """More tokens than there is room for on chip: they are spilled, and read back."""
    memory, source = await begin(dut), random.Random(1)
    pushed = [(8 * source.randrange(1 << 20), 1 << number) for number in range(32)]
    for pc, mask in pushed:
        await ask(dut, StackOperation.PUSH, kind=TokenKind.DIVERGE, operand=pc, mask=mask)
    assert memory.writes > 0
    for pc, mask in reversed(pushed):
        result = await ask(dut, StackOperation.UNWIND)
        assert (result.resume, result.pc, result.mask) == (1, pc, mask)
        assert result.kind == TokenKind.DIVERGE
    assert memory.reads > 0
    dut._log.info("%d lines spilled, %d filled", memory.writes, memory.reads)


@cocotb.test()
async def an_empty_stack_ends_the_warp(dut: Any) -> None:
    """All threads have exited, and nobody waits."""
    await begin(dut)
    result = await ask(dut, StackOperation.UNWIND, codes=[ThreadCode.EXIT] * 32)
    assert (result.resume, result.empty) == (0, 1)


def main(folder: str = "build/cocotb") -> None:
    """Writes the Verilog, simulates it, and tells how many tests have passed. The environment's SIM names the
    simulator; without it, it is one that is installed."""
    wanted = [os.environ["SIM"]] if os.environ.get("SIM") else list(SIMULATORS)
    if unknown := set(wanted) - SIMULATORS.keys():
        sys.exit(f"SIM={unknown.pop()}: there are {', '.join(SIMULATORS)}")
    simulator = next((name for name in wanted if shutil.which(SIMULATORS[name])), None)
    if simulator is None:
        sys.exit(f"not installed: {', '.join(wanted)}")
    build = Path(folder).resolve()
    source = build / "stack.v"
    build.mkdir(parents=True, exist_ok=True)
    source.write_text(verilog_of(CallReturnStack(PARAMS), build / "yosys", lambda _step: None))
    runner = get_runner(simulator)
    runner.build(sources=[source], hdl_toplevel="top", build_dir=build, timescale=("1ns", "1ps"))
    here = Path(__file__)
    results = runner.test(hdl_toplevel="top", test_module=here.stem, build_dir=build, test_dir=here.parent,
                          results_xml=str(build / "results.xml"))
    tests, failed = get_results(results)
    print(f"{simulator}: {tests - failed} of {tests} tests passed")
    sys.exit(int(failed > 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
