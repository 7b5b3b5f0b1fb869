"""Compiled PTX against interpreted PTX: the kernels with some of their words exchanged.

Most of these texts are no realistic programs. Texts whose result depends on uninitialized registers
or on the order of threads can't show an error of the compiler and are skipped, as are texts with an
error at run time.
"""

import random
import re

import pytest

from sim.launch import Argument, prepare
from sim.model.ptx.launch import place
from sim.model.ptx.run import PtxRunError
from sim.model.ptx.run import run as interpret
from sim.model.thread.run import run as run_threads
from sim.model.warp.model import WarpModel
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.compiler import compile_module
from sim.toolchain.cubin.loader import load
from sim.toolchain.module import ProgramError
from sim.toolchain.ptx.front_end import parse_ptx
from sim.toolchain.ptx.module import PtxModule
from testbench.kernels.manifest import LEVELS, RUNS, Run, cubin

HERE = cubin("k01_vecadd", "O0").parent
CASES = [case for case in RUNS.values() if not case.compared and not case.traps]
"""Runs with fully defined results."""
ATTEMPTS = 60
LIMIT = 30_000
"""Largest number of instructions of a program that is compared."""
CONDITIONS = (
    (0, 256, False),
    (0x5A5A_1234_DEAD_BEEF, 256, True),
    (0, 1, True),
    (0x0123_4567_89AB_CDEF, 7, False),
)
"""Initial register contents, number of instructions that a thread executes at a time, whether
threads run in reverse order.
"""
Memory = dict[str, bytes]


def mutant(source: random.Random, text: str) -> str:
    """Returns the text with a few words replaced by others of the same kind."""
    words = re.findall(r"\s+|[\w%$.]+|.", text)
    code = [at for at in range(words.index("{"), len(words)) if re.match(r"[\w%]", words[at])]

    def kind(word: str) -> tuple[str, int]:
        return "0" if word[0].isdigit() else word[0], word.count(".")

    for _ in range(source.randrange(1, 5)):
        at = source.choice(code)
        words[at] = words[
            source.choice([other for other in code if kind(words[other]) == kind(words[at])])
        ]
    return "".join(words)


def arguments(case: Run) -> list[Argument]:
    return case.launch_arguments(LEVELS[0])


def meaning(case: Run, module: PtxModule) -> Memory | None:
    """Returns the memory that the program leaves; None if that is undefined."""
    found: list[Memory] = []
    for undefined, turn, backwards in CONDITIONS:
        launch = place(
            module,
            arguments(case),
            grid=case.grid,
            block=case.block,
            dynamic_shared=case.dynamic_shared,
            undefined=undefined,
        )
        try:
            if (
                interpret(
                    launch, max_instructions=LIMIT, turn_length=turn, backwards=backwards
                ).trap
                is not None
            ):
                return None
        except PtxRunError:
            return None
        found.append({name: launch.memory.read(*place) for name, place in launch.buffers.items()})
        if found[-1] != found[0]:
            return None
    return found[0]


@pytest.mark.parametrize("seed", range(40))
def test_compiled_code_does_what_the_text_means(seed):
    source = random.Random(seed)
    for _ in range(ATTEMPTS):
        case = source.choice(CASES)
        text = mutant(source, (HERE / f"{case.kernel}.ptx").read_text())
        try:
            module = parse_ptx(text, case.kernel)
        except ProgramError:
            continue
        expected = meaning(case, module)
        if expected is not None:
            break
    else:
        raise AssertionError("no text has a meaning")
    program = load(assemble(compile_module(module), case.kernel))
    for machine in ("threads", "warps"):
        launch = prepare(
            program,
            arguments(case),
            grid=case.grid,
            block=case.block,
            dynamic_shared=case.dynamic_shared,
        )
        if machine == "threads":
            run_threads(launch, max_instructions=20 * LIMIT)
        else:
            assert WarpModel(launch, warps=64).run(20 * LIMIT).status == "ok", text
        assert {
            name: launch.memory.read(*place) for name, place in launch.buffers.items()
        } == expected, text
