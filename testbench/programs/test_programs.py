"""The kernels, compiled by NVIDIA's assembler, on the thread model, against what their PTX defines."""

import random
import re
import struct
from dataclasses import replace

import numpy as np
import pytest

from sim.launch import Scalar
from sim.model.thread.run import run
from testbench.kernels.expected import complaints, expected
from testbench.kernels.expected_numbers import quotient, remainder
from testbench.kernels.manifest import (
    LEVELS,
    RUNS,
    BufferSpec,
    ManifestError,
    Run,
    build,
    cubin,
    read,
)
from testbench.kernels.outcome import Exact, OneOf, Rule, signed
from testbench.words import contents

HERE = cubin("k01_vecadd", "O0").parent
KERNELS = sorted(path.stem for path in HERE.glob("*.ptx"))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", RUNS)
def test_memory_is_what_the_ptx_says(name, level):
    case = RUNS[name]
    launch = build(case, level)
    ended = run(launch, max_instructions=1_000_000)
    assert complaints(case, level, launch) == []
    assert (ended.trap is not None) == case.traps
    assert 0 < ended.instructions < 200_000


@pytest.mark.parametrize("name", RUNS)
def test_both_optimisation_levels_agree_on_what_is_defined(name):
    launches = {level: build(RUNS[name], level) for level in LEVELS}
    for launch in launches.values():
        run(launch)
    for buffer, outcome in expected(RUNS[name], LEVELS[0]).items():
        if isinstance(outcome, Exact):
            found = [launch.memory.read(*launch.buffers[buffer]) for launch in launches.values()]
            assert found[0] == found[1], buffer


@pytest.mark.parametrize("name", RUNS)
def test_a_wrong_byte_is_noticed(name):
    """The byte is changed after a finished run, in every buffer with any defined content."""
    case = RUNS[name]
    launch = build(case, "O3")
    run(launch)
    for buffer, outcome in expected(case, "O3").items():
        base, size = launch.buffers[buffer]
        defined = (
            next(
                at
                for at in reversed(range(size // 4))
                if not (isinstance(outcome, OneOf) and outcome.words[at] is None)
            )
            * 4
        )
        kept = launch.memory.read(base + defined, 1)
        launch.memory.write(base + defined, bytes([kept[0] ^ 0x80]))
        assert [line for line in complaints(case, "O3", launch) if f": {buffer}: " in line]
        launch.memory.write(base + defined, kept)


def test_a_changed_module_variable_is_noticed():
    case = RUNS["k10_calltable_global"]
    launch = build(case, "O3")
    run(launch)
    base, _ = launch.memory.regions["globals"]
    launch.memory.write(base, b"\xff")
    assert complaints(case, "O3", launch) == ["k10_calltable_global O3: globals changed"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_has_its_files_and_a_run_with_the_parameters_of_its_ptx(kernel):
    parameters = re.findall(
        r"\.param \.\w+ (\w+)",
        (HERE / f"{kernel}.ptx").read_text(errors="replace").split(".entry k(")[1].split(")")[0],
    )
    assert [argument.name for argument in RUNS[kernel].arguments] == parameters
    assert all(cubin(kernel, level).is_file() for level in LEVELS)


@pytest.mark.parametrize("name", RUNS)
def test_every_run_says_what_it_is_for_and_what_is_compared(name):
    case = RUNS[name]
    assert case.exercises
    loose = [outcome for outcome in expected(case, "O3").values() if not isinstance(outcome, Exact)]
    alone = case.threads == 1
    assert case.compared or not loose or alone


# Division, beyond the operands of the manifest: compiled code uses a float reciprocal.


def _output(case: Run, level: str, words: list[int], **scalars: int) -> list[int]:
    """Returns what one thread leaves in buffer o, whose 32-bit words were initially ``words``."""
    arguments = []
    for spec in case.arguments:
        if spec.name == "o":
            content = np.zeros(16, "<u4")
            content[: len(words)] = words
            arguments.append(replace(spec, content=content))
        else:
            arguments.append(replace(spec, values=dict.fromkeys(LEVELS, scalars[spec.name])))
    launch = build(replace(case, arguments=tuple(arguments), block=(1, 1, 1)), level)
    run(launch)
    return contents(launch, "o")


def _operand(source: random.Random, bits: int) -> int:
    """Returns a nonzero number of any length, often close to a power of two."""
    length = source.randrange(1, bits + 1)
    return max(
        1, ((1 << length) + source.choice([-2, -1, 0, 1, source.getrandbits(length)])) % (1 << bits)
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(20))
def test_division_of_32_bits_is_exact(seed, level):
    source = random.Random(seed)
    x, y, a = (_operand(source, 32) for _ in range(3))
    found = _output(RUNS["k25_divrem32"], level, [x, y], a=a)
    sx, sy, sa = signed(x), signed(y), signed(a)
    exact = [
        x // y,
        x % y,
        quotient(sx, sy),
        remainder(sx, sa),
        x // 10,
        remainder(sx, 7),
        quotient(sx, 16),
        x % 100,
    ]
    assert found[4:12] == [value & 0xFFFFFFFF for value in exact], (x, y, a)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(20))
def test_division_of_64_bits_is_exact(seed, level):
    source = random.Random(seed)
    x, y = (_operand(source, 64) for _ in range(2))
    found = _output(RUNS["k26_divrem64"], level, [x & 0xFFFFFFFF, x >> 32, y & 0xFFFFFFFF, y >> 32])
    sx, sy = signed(x, 64), signed(y, 64)
    exact = [x // y, x % y, quotient(sx, sy), remainder(sy, 1000)]
    assert [low | high << 32 for low, high in zip(found[4:12:2], found[5:12:2], strict=True)] == [
        value & (1 << 64) - 1 for value in exact
    ], (x, y)


# Outcomes, and errors of the manifest itself


def test_outcomes_tell_what_is_wrong():
    words = struct.pack("<3I", 1, 2, 3)
    assert Exact(np.array([1, 2, 3], "<u4")).complaints(words) == []
    assert Exact(np.array([1, 5, 3], "<u4")).complaints(words) == ["element 1 is 0x2, not 0x5"]
    assert Exact(np.array([1, 2], "<u4")).complaints(words) == ["3 elements, not 2"]
    assert OneOf([frozenset([1]), None, frozenset([3, 4])]).complaints(words) == []
    assert OneOf([frozenset([9]), None, frozenset([4, 5])]).complaints(words) == [
        "word 0 is 0x1, not one of 0x9",
        "word 2 is 0x3, not one of 0x4, 0x5",
    ]
    assert OneOf([None]).complaints(words) == ["3 words, not 1"]
    assert Rule("<u4", lambda found: [str(found.sum())]).complaints(words) == ["6"]


ENTRY = '[[run]]\nkernel = "k"\nexercises = "x"\ngrid = [1]\nblock = [1]\narguments = [{}]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.format("") + "colour = 1", "k: unknown keys: colour"),
        (
            ENTRY.format('{ name = "a", type = "u32", size = 4 }'),
            "k: argument a has unknown keys: size",
        ),
        (
            ENTRY.format('{ name = "a", type = "f32", value = 4 }'),
            "k: argument a has type 'f32', not one of u8",
        ),
        (
            ENTRY.format('{ name = "a", type = "u8", count = 1, words = [1, 2] }'),
            "a has 2 elements and count 1",
        ),
        (2 * ENTRY.format(""), "k is there twice"),
    ],
)
def test_a_bad_entry_is_named(text, message):
    with pytest.raises(ManifestError, match=re.escape(message)):
        read(text)


def test_a_structure_is_passed_as_its_bytes():
    case = read(ENTRY.format('{ name = "a", type = "s16", values = [1, -2, 3] }'))["k"]
    assert case.launch_arguments("O3") == [Scalar(0x0003_FFFE_0001, 6)]
    assert case.entry == "k"
    assert read(ENTRY.format("") + 'entry = "other"')["k"].entry == "other"


def test_buffers_are_filled_as_requested():
    arguments = (
        '{ name = "a", type = "u8", text = "ab", count = 4 }, '
        '{ name = "b", type = "s16", iota = -1, count = 3 }, '
        '{ name = "c", type = "u32", random = 5, count = 50, low = 3, high = 5 }'
    )
    case = read(ENTRY.format(arguments))["k"]
    a, b, c = (spec.content for spec in case.arguments if isinstance(spec, BufferSpec))
    assert a.tobytes() == b"ab\0\0"
    assert b.tolist() == [-1, 0, 1]
    assert set(c.tolist()) == {3, 4, 5}
