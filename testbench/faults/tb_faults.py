"""Memory errors and late answers at any request, launch descriptors with each field wrong: told, and never in the way.

Whatever memory answers, a program ends or is held with the right error, leaves no wrong result, and the machine takes
the next one.
"""

from rtl.params import PRESETS
from sim.engine import PysimEngine
from sim.testbench import Bench
from testbench.faults.descriptors import check_descriptors, wrong_values
from testbench.faults.memory_errors import MemoryErrors

_ERRORS, _LATE_RUNS, _DESCRIPTORS = 24, 2, 12
"""What the short form checks of each."""


def run(bench: Bench) -> None:
    """The testbench."""
    if bench.engine is PysimEngine:
        bench.checked("nothing: this takes the compiled engine")
        return
    params = PRESETS["tiny"]
    machine = MemoryErrors(params, bench.engine)
    numbers = list(range(machine.requests))
    if not bench.thorough:
        numbers = bench.random.sample(numbers, _ERRORS)
    for number in bench.progress(numbers, "memory errors"):
        machine.check_error(bench, number, handler=number % 3 != 0)
    for _ in range(_LATE_RUNS if not bench.thorough else 40):
        machine.check_late(bench, bench.random.sample(range(machine.requests), 2))
    wrongs = list(wrong_values(bench.random))
    check_descriptors(bench, params, bench.engine, wrongs if bench.thorough else
                      bench.random.sample(wrongs, _DESCRIPTORS))
