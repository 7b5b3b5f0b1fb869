"""A kernel's resources are the maxima over the kernel and all functions that it calls."""

import pytest

from testbench.compiler.runs import compiled
from testbench.ptx.text import HEADER

TEXT = (
    HEADER
    + """
.func low(.reg .b32 t) { bar.sync 2; ret; }
.func high(.reg .b32 t) { bar.sync 5; ret; }
.func deep(.reg .b32 t) { call low, (t); call high, (t); ret; }
.func framed(.reg .b32 t) { .local .b8 x[100]; .reg .b32 a; mov.u32 a, x; st.local.u32 [a], t; ret; }
.func twice(.reg .b32 t) { .local .b8 x[16]; .reg .b32 a; mov.u32 a, x; st.local.u32 [a], t; call framed, (t); ret; }
.visible .entry none() { ret; }
.visible .entry one() { bar.sync 0; ret; }
.visible .entry calls() .maxntid 64, 2, 1 { .reg .b32 t; mov.u32 t, 1; bar.sync 3; call low, (t); ret; }
.visible .entry all() .reqntid 32, 4, 2 { .reg .b32 t; mov.u32 t, 1; bar.sync 3; call deep, (t); ret; }
.visible .entry frames() { .reg .b32 t; mov.u32 t, 1; call twice, (t); call low, (t); ret; }
"""
)


@pytest.fixture(scope="module")
def kernels():
    return compiled(TEXT).kernels


@pytest.mark.parametrize(
    ("name", "barriers", "local", "tokens"),
    [
        ("none", 0, 0, 0),
        ("one", 1, 0, 0),
        ("calls", 4, 0, 1),
        ("all", 6, 0, 2),
        ("frames", 3, 112 + 16, 2),  # frames of nested calls add up
    ],
)
def test_barriers_stacks_and_tokens_are_those_of_the_deepest_calls(
    kernels, name, barriers, local, tokens
):
    """Barriers are numbered from 0. A frame is a multiple of 16 bytes; a call is a token of 16
    bytes.
    """
    found = kernels[name]
    assert (found.barriers, found.local, found.crs) == (barriers, local, 16 * tokens)


def test_bounds_of_a_launch_are_those_of_the_kernel(kernels):
    assert (kernels["calls"].bounds.largest, kernels["calls"].bounds.exact) == ((64, 2, 1), None)
    assert (kernels["all"].bounds.largest, kernels["all"].bounds.exact) == (None, (32, 4, 2))
    assert (kernels["one"].bounds.largest, kernels["one"].bounds.exact) == (None, None)
