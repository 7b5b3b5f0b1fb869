"""MUFU, RRO and F2F return the same words on both models, for numbers of every kind."""

from random import Random

import pytest

from rtl.isa.functions import OF_DOUBLES
from rtl.isa.kinds import FloatRange
from rtl.params import WARP_THREADS
from sim.model.thread.run import step
from testbench.execute.singles import EDGES, single
from testbench.handmade import alone, encode, vector
from testbench.instructions.functions import BOUNDS, UPPER_EDGES

WORDS = [
    encode("MUFU", Rd=0, Ra=1, function=function.value, saturate=saturate, negate_a=negate)
    for function in (*BOUNDS, *OF_DOUBLES)
    for saturate, negate in ((0, 0), (1, 0), (0, 1))
]
WORDS += [
    encode("RRO", "r", Rd=0, Rb=1, mode=mode.value, absolute_b=absolute)
    for mode in FloatRange
    for absolute in (0, 1)
]
WORDS += [
    encode(
        "F2F", "r", Rd=0, Rb=1, source=2, destination=2, whole=whole, flush=flush, saturate=flush
    )
    for whole in (0, 4, 5, 6, 7)
    for flush in (0, 1)
]


@pytest.mark.parametrize("word", WORDS, ids=hex)
def test_both_models_agree(word):
    source = Random(word)
    edges = [*EDGES, *UPPER_EDGES]
    numbers = [
        *edges,
        *(single(source) for _ in range(5 * WARP_THREADS - len(edges) % WARP_THREADS)),
    ]
    for first in range(0, len(numbers), WARP_THREADS):
        part = numbers[first : first + WARP_THREADS]
        warp, _ = alone(word, {1: part})
        assert vector(warp, 0) == [step(word, {1: number}).registers[0] for number in part], [
            hex(n) for n in part
        ]
