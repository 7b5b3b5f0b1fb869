"""Reconvergence: the tokens that a small function pushes, and the paths on which threads leave by
them.
"""

import pytest

from sim.toolchain.compiler.analysis.dominators import Dominators
from sim.toolchain.compiler.analysis.loops import add_preheaders
from sim.toolchain.compiler.ir import Block, Terminator
from sim.toolchain.compiler.passes.reconvergence import (
    ReconvergenceRegion,
    TokenBalance,
    TokenPlan,
    plan,
)
from sim.toolchain.compiler.passes.simplify_cfg import simplify_cfg
from testbench.compiler.passes import selected

READ = "mov.u32 a, %tid.x; ld.shared.u32 b, [a];"
STORE = "st.shared.u32 [a], b;"


def tokens(body):
    """Returns a line for each push, and one for each path that leaves a region; blocks have the
    numbers of listings.
    """
    function = selected(f"{READ} {body}")
    simplify_cfg(function)
    add_preheaders(function)
    made = plan(function)
    names = {block: f"B{number}" for number, block in enumerate(function.blocks)}
    lines = [
        f"{names[block]}: {region.token.push} {names[region.join]}"
        for block, regions in made.pushes.items()
        for region in regions
    ]
    lines += [
        f"{names[source]} to {names[target]}: {region.token.leave}"
        for (source, target), region in made.leaves.items()
    ]
    return sorted(lines)


CASES = {
    "both_paths_of_a_branch_meet_at_its_post_dominator": (
        f"setp.lt.u32 p, b, 5; @p bra A; {STORE} bra E; A: add.u32 b, b, 1; {STORE} E: {STORE}",
        ["B0: SSY B3", "B1 to B3: SYNC", "B2 to B3: SYNC"],
    ),
    "a_branch_that_all_threads_take_alike_pushes_nothing": (
        f"ld.param.u32 n, [x]; setp.lt.u32 p, n, 5; @p bra A; {STORE} bra E; A: add.u32 b, b, 1; "
        f"{STORE} E: {STORE}",
        [],
    ),
    "threads_that_leave_a_loop_at_different_times_meet_behind_it": (
        f"L: {STORE} add.u32 a, a, 4; sub.u32 b, b, 1; setp.ne.u32 p, b, 0; @p bra L; {STORE}",
        ["B0: SSY B2", "B1 to B2: SYNC"],
    ),
    "a_path_out_of_a_loop_past_the_token_of_a_branch_is_a_break": (
        f"L: setp.lt.u32 p, b, 5; @p bra A; {STORE} bra M; "
        f"A: setp.eq.u32 q, b, 3; @q bra E; {STORE} "
        f"M: sub.u32 b, b, 1; setp.ne.u32 p, b, 0; @p bra L; E: {STORE}",
        [
            "B0: PBK B6",
            "B1: SSY B5",
            "B2 to B5: SYNC",
            "B3 to B6: BRK",
            "B4 to B5: SYNC",
            "B5 to B6: BRK",
        ],
    ),
    "threads_that_end_are_not_waited_for": (
        f"setp.lt.u32 p, b, 5; @p bra A; {STORE} bra E; A: add.u32 b, b, 1; {STORE} E:",
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_threads_meet_by_tokens(name):
    body, expected = CASES[name]
    assert tokens(body) == expected


def test_a_region_that_no_path_leaves_is_dropped():
    """Two regions with one join are both pushed on every path to it; threads leave the inner one."""
    function = selected(f"{READ} setp.lt.u32 p, b, 5; @p bra A; {STORE} A: {STORE}")
    simplify_cfg(function)
    entry, join = function.blocks[0], function.blocks[-1]
    outer, inner = (ReconvergenceRegion(entry, join) for _ in range(2))
    dominators = Dominators(function)
    assert TokenBalance(function, [outer, inner], dominators).check() is outer
    made = TokenBalance(function, [inner], dominators).check()
    assert isinstance(made, TokenPlan)
    assert set(made.leaves.values()) == {inner} and made.depth == 1


@pytest.mark.parametrize("number", [1, 2])
def test_a_region_that_is_open_on_one_path_only_is_dropped(number):
    """A region is pushed in one branch, and its join is after the block where both branches join."""
    function = selected(
        f"{READ} setp.lt.u32 p, b, 5; @p bra A; {STORE} bra B; A: {STORE} B: {STORE}"
    )
    simplify_cfg(function)
    meeting, end = function.blocks[3], Block("end", terminator=Terminator.EXIT)
    meeting.terminator, meeting.successors = Terminator.GOTO, [end]
    function.blocks.append(end)
    assert meeting in function.blocks[1].successors and meeting in function.blocks[2].successors
    region = ReconvergenceRegion(function.blocks[number], end)
    assert TokenBalance(function, [region], Dominators(function)).check() is region
