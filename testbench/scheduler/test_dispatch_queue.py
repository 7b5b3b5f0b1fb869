"""The queue of dispatched instructions: no instruction is lost, the order is kept, and its capacity
is used.
"""

from random import Random
from typing import Any

import pytest
from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
from amaranth.lib import data

from rtl.dispatch_queue import DispatchQueue
from testbench.simulation import simulate

_LAYOUT = data.StructLayout({"number": 16})
_DISPATCHES = 5
"""Cycles from the ready instruction, with room in that cycle, to its dispatch."""
_PLACES = 16


def play(cycles: int, *, decoding: int, bypass: bool, takes: float) -> tuple[list[int], int, int]:
    """Makes an instruction ready whenever there is room; ``takes`` is the probability that the unit
    takes one in a cycle.

    Returns:
        The instructions taken, the maximum number between selection and unit, and how many were
        taken in the cycle of their arrival.
    """
    queue, random = DispatchQueue(_LAYOUT, decoding=decoding, bypass=bypass), Random(1)
    taken: list[int] = []
    selected = most = at_once = 0

    async def process(ctx: Any) -> None:
        nonlocal selected, most, at_once
        way: list[int | None] = [None] * (_DISPATCHES + decoding)
        for _ in range(cycles):
            arriving = way.pop(0)
            ctx.set(queue.arriving.valid, arriving is not None)
            ctx.set(queue.arriving.payload.number, arriving or 0)
            ctx.set(queue.head.ready, random.random() < takes)
            if ctx.get(queue.head.valid & queue.head.ready):
                taken.append(ctx.get(queue.head.payload.number))
                at_once += taken[-1] == arriving
            room = ctx.get(queue.room)
            way.append(selected if room else None)
            selected += room
            most = max(most, selected - len(taken))
            await ctx.tick()

    simulate(queue, process)
    return taken, most, at_once


@pytest.mark.parametrize("bypass", [False, True])
@pytest.mark.parametrize("decoding", [0, 1])
@pytest.mark.parametrize("takes", [0.02, 0.5, 1.0])
def test_nothing_is_lost(decoding, bypass, takes):
    taken, most, at_once = play(600, decoding=decoding, bypass=bypass, takes=takes)
    assert taken == list(range(len(taken)))
    if takes == 1.0:
        assert len(taken) >= 600 - _DISPATCHES - decoding - 1
        assert at_once == (len(taken) if bypass else 0)
    elif takes == 0.02:
        assert most == _PLACES


@pytest.mark.parametrize("bypass", [False, True])
@pytest.mark.parametrize("takes", [0.02, 0.5, 1.0])
def test_one_place_holds_what_is_under_way(bypass, takes):
    """With a capacity of one the next instruction is selected when the unit has taken the last
    one.
    """
    queue, random = DispatchQueue(_LAYOUT, places=1, bypass=bypass), Random(2)
    taken: list[int] = []

    async def process(ctx: Any) -> None:
        selected, coming = 0, 0
        for _ in range(600):
            arrives = coming == 1
            coming = max(coming - 1, 0)
            ctx.set(queue.arriving.valid, arrives)
            ctx.set(queue.arriving.payload.number, selected if arrives else 0)
            ctx.set(queue.head.ready, random.random() < takes)
            waiting = selected - len(taken) - (coming != 0) - (arrives and not bypass)
            assert ctx.get(queue.head.valid) == (waiting > 0)
            assert ctx.get(queue.room) == (not (arrives or selected - len(taken) - (coming != 0)))
            if ctx.get(queue.head.valid & queue.head.ready):
                taken.append(ctx.get(queue.head.payload.number))
            if ctx.get(queue.room) and not coming:
                selected, coming = selected + 1, random.randint(1, 4)
            await ctx.tick()

    simulate(queue, process)
    assert taken == list(range(1, len(taken) + 1))
    assert len(taken) >= 600 * takes / 8


@pytest.mark.parametrize("places", [1, 16])
@pytest.mark.parametrize("bypass", [False, True])
def test_it_converts_to_rtlil(bypass, places):
    assert rtlil.convert(DispatchQueue(_LAYOUT, places=places, bypass=bypass))
