"""The scoreboards of the issue unit: an event without a matching instruction is reported as an
error.
"""

from typing import Any

import pytest

from rtl.isa.control_code import NO_BARRIER
from rtl.issue.records import INCOMPLETE
from rtl.issue.scoreboards import Scoreboards
from rtl.params import PRESETS
from testbench.driver import offer
from testbench.simulation import simulate

_PARAMS = PRESETS["tiny"]
_SWEEP = _PARAMS.warps + 2
"""Cycles in which the counters are cleared after reset."""
_APART = 4
"""Cycles between two events."""
_WARP, _SCOREBOARD = 1, 3


async def _pulse(ctx: Any, port: Any, payload: dict[str, Any]) -> None:
    """Applies an event for one cycle, and waits some cycles."""
    offer(ctx, port, payload)
    await ctx.tick()
    offer(ctx, port, None)
    await ctx.tick().repeat(_APART)


def _play(source: str, raises: int, event: dict[str, int], issued: int, ended: int) -> None:
    """A warp issues ``issued`` instructions that raise the same scoreboards; then a source reports
    ``ended`` events.
    """
    dut: Any = Scoreboards(_PARAMS, units=1)
    port = dut.lanes if source == "lanes" else dut.units[0]

    async def drive(ctx: Any) -> None:
        ctx.set(dut.time, 1)  # a cycle in which the event queues are served
        await ctx.tick().repeat(_SWEEP)
        for _ in range(issued):
            await _pulse(ctx, dut.counted, {"warp": _WARP, "raises": raises})
        for _ in range(ended):
            await _pulse(ctx, port, {"warp": _WARP, **event})

    simulate(dut, drive)


_LOWERS = {"completes": 0, "write_barrier": _SCOREBOARD, "read_barrier": NO_BARRIER}
_COMPLETES = {"completes": 1, "write_barrier": NO_BARRIER, "read_barrier": NO_BARRIER}


@pytest.mark.parametrize("source", ["lanes", "units"])
@pytest.mark.parametrize("issued", [0, 1, 2, 60])
@pytest.mark.parametrize(
    ("raises", "event", "message"),
    [
        (_SCOREBOARD, _LOWERS, "a scoreboard is lowered more often than raised"),
        (INCOMPLETE, _COMPLETES, "an instruction is complete that was not issued"),
    ],
)
def test_more_events_than_instructions_are_reported(source, issued, raises, event, message):
    _play(source, 1 << raises, event, issued, issued)
    with pytest.raises(AssertionError, match=message):
        _play(source, 1 << raises, event, issued, issued + 1)
