"""The stream contract between the units of the whole machine."""

from typing import Any

import pytest
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from rtl.component import Component
from rtl.params import PRESETS
from sim.machine.hardware import Hardware
from testbench.engine.designs import needs_compiled
from testbench.kernels.manifest import RUNS, build
from testbench.simulation import ENGINE
from testbench.sm.streams import LOOSE, StreamWatch

_RUNS = (
    "k08_fib_recursion",
    "k14_transpose_shared",
    "k18_atomics_global",
    "k32_bitonic",
    "k44_bar_variants",
)
_LIMIT = 200_000


@needs_compiled
def test_what_is_offered_stays():
    """Kernels that spill their stacks, transpose, use atomic operations and barriers; memory
    responds in any order that its port allows.
    """
    watch = StreamWatch()
    hardware = Hardware(PRESETS["tiny"], ENGINE, check=True, disorder=1, watched=watch.watched)
    for name in _RUNS:
        result = hardware.run(build(RUNS[name], "O3"), _LIMIT)
        assert result.status == "ok", result
    assert {place: how for place, how in watch.broken.items() if place not in LOOSE} == {}
    assert len(watch.waited) > 40


@pytest.mark.parametrize(
    ("then", "broken"),
    [
        ([(4, 2, 6)], "cycle 4: 0x5, then 0x6, valid 1"),
        ([(4, 0, 0)], "cycle 4: 0x5, then 0x5, valid 0"),
        ([(4, 1, 1), (5, 0, 0)], None),
        ([(0, 0, 0)], None),
    ],
)
def test_what_does_not_stay_is_found(then, broken):
    watch = StreamWatch()
    part: Any = Component({"word": Out(stream.Signature(8)), "other": In(stream.Signature(8))})
    part._MustUse__used = True  # Amaranth warns about components that were not elaborated
    [(signals, take)] = watch.watched(part)
    assert [signal.name for signal in signals[:3]] == [
        "word__valid",
        "word__ready",
        "word__payload",
    ]
    take([(3, 0, 1), (3, 1, 0), (3, 2, 5)])
    take(then)
    assert watch.broken.get(("sm", "word")) == broken
