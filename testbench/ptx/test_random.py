"""Random PTX texts with control flow of every kind, calls and scopes: the interpreter's results
equal Python's.

The tests of the compiler run the same texts compiled.
"""

import pytest

from sim.launch import Buffer, Scalar
from sim.model.ptx.launch import place
from sim.model.ptx.run import run
from sim.toolchain.ptx.front_end import parse_ptx
from testbench.compiler.random_functions import THREADS, structured, unstructured
from testbench.words import contents

WORDS = 4 * THREADS


@pytest.mark.parametrize("make", [structured, unstructured])
@pytest.mark.parametrize("seed", range(20))
def test_random_texts_mean_what_they_say(make, seed):
    program = make(seed)
    for same in (0, 5):
        launch = place(
            parse_ptx(program.text, "t.ptx"),
            [Buffer("out", bytes(4 * WORDS)), Scalar(same, 4)],
            block=(THREADS, 1, 1),
        )
        run(launch)
        assert contents(launch, "out") == program.expected(same)
