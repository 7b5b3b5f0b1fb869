"""The kernels' PTX, parsed and interpreted, against the results defined by their text."""

from collections import Counter
from functools import cache

import pytest

from sim.launch import Buffer, Scalar
from sim.model.ptx.launch import PtxLaunch, place
from sim.model.ptx.run import run
from sim.toolchain.ptx.front_end import read_ptx
from sim.toolchain.ptx.module import PtxInstruction, PtxLabel, PtxModule
from testbench.kernels.expected import expected
from testbench.kernels.manifest import LEVELS, RUNS, BufferSpec, Run, cubin
from testbench.words import contents

HERE = cubin("k01_vecadd", "O0").parent
KERNELS = sorted(path.stem for path in HERE.glob("*.ptx"))
TAKES_A_FUNCTION = "k12_callprototype_param"
"""Kernel whose parameter is a function's address, which the manifest has for compiled code."""


@cache
def module(kernel: str) -> PtxModule:
    return read_ptx(HERE / f"{kernel}.ptx")


def launch(case: Run, level: str) -> PtxLaunch:
    return place(
        module(case.kernel),
        case.launch_arguments(level),
        grid=case.grid,
        block=case.block,
        dynamic_shared=case.dynamic_shared,
    )


def wrong(case: Run, level: str, finished: PtxLaunch) -> list[str]:
    return [
        f"{name}: {line}"
        for name, outcome in expected(case, level).items()
        for line in outcome.complaints(finished.memory.read(*finished.buffers[name]))
    ]


@pytest.mark.parametrize(
    "name", [name for name, case in RUNS.items() if case.kernel != TAKES_A_FUNCTION]
)
def test_interpreted_ptx_leaves_what_its_text_says(name):
    case = RUNS[name]
    # The level matters only if the manifest's arguments depend on it, as in the kernel that is
    # excluded.
    assert {
        len(set(spec.values.values()))
        for spec in case.arguments
        if not isinstance(spec, BufferSpec)
    } <= {1}
    finished = launch(case, LEVELS[0])
    ended = run(finished, max_instructions=200_000)
    assert wrong(case, LEVELS[0], finished) == []
    assert (ended.trap is not None) == case.traps


@pytest.mark.parametrize(
    ("function", "value"),
    [("f0", lambda t: t + 3 * t), ("f1", lambda t: t << 3 * t if 3 * t < 32 else 0)],
)
def test_a_function_whose_address_is_a_parameter_is_called(function, value):
    text = module(TAKES_A_FUNCTION)
    address = place(text, [Buffer("out", bytes(4)), Scalar(0, 8)]).addresses[function]
    finished = place(text, [Buffer("out", bytes(4 * 40)), Scalar(address, 8)], block=(40, 1, 1))
    run(finished)
    assert contents(finished, "out") == [value(t) & 0xFFFF_FFFF for t in range(40)]


@pytest.mark.parametrize("name", ["k03_nested_if", "k09_ackermann", "k22_alu64", "k57_deep_nest"])
def test_a_wrong_byte_is_noticed(name):
    case = RUNS[name]
    finished = launch(case, LEVELS[0])
    run(finished)
    base, _ = finished.buffers[case.arguments[0].name]
    finished.memory.write_number(base, 4, finished.memory.read_number(base, 4) ^ 1 << 31)
    assert wrong(case, LEVELS[0], finished)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_becomes_a_typed_program(kernel):
    text = (HERE / f"{kernel}.ptx").read_text()
    program = module(kernel)
    assert program.version == (7, 8)
    assert program.target == "sm_50"
    assert set(program.functions) == {name for name in program.functions if f" {name}" in text}
    for function in program.functions.values():
        assert function.body is not None
        last = function.body[-1]
        assert isinstance(last, PtxInstruction)
        assert last.opcode in ("bra", "brx", "exit", "ret")
        assert last.guard is None
        names = [item.name for item in (*function.registers, *function.variables)]
        names += [item.name for item in function.body if isinstance(item, PtxLabel)]
        assert [name for name, count in Counter(names).items() if count > 1] == []
    # Every instruction of the text is found at its position: each ends in a semicolon, as other
    # statements do.
    lines = text.splitlines()
    code = [
        item
        for function in program.functions.values()
        for item in function.body or ()
        if isinstance(item, PtxInstruction)
    ]
    written = [
        item for item in code if lines[item.line - 1][item.column - 1 :].startswith(item.opcode)
    ]
    others = sum(
        text.count(word)
        for word in (
            ".reg .",
            ".local .",
            ".shared .",
            ".global .align",
            ".global .u64 tbl",
            ".const .align",
            ".branchtargets",
            ".calltargets",
            ".callprototype",
            "{ .param ",
            "; .param ",
        )
    )
    assert len(written) == text.count(";") - others + text.count("(.reg ")
    assert len(code) - len(written) == text.count("trap; }")
