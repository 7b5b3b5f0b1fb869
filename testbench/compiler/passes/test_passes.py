"""Each pass of the compiler: its output for a small function, which must differ without the pass."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sim.toolchain.compiler.analysis.definitions import Definitions
from sim.toolchain.compiler.analysis.divergence import divergent_blocks
from sim.toolchain.compiler.analysis.loops import add_preheaders
from sim.toolchain.compiler.analysis.post_dominators import LoopLevels
from sim.toolchain.compiler.ir import Function
from sim.toolchain.compiler.passes import full_unroll
from sim.toolchain.compiler.passes.carry import keep_carries
from sim.toolchain.compiler.passes.combine import combine
from sim.toolchain.compiler.passes.constant_folding import fold_constants
from sim.toolchain.compiler.passes.constant_propagation import propagate
from sim.toolchain.compiler.passes.cse import share_subexpressions
from sim.toolchain.compiler.passes.dead_code import remove_dead_code
from sim.toolchain.compiler.passes.expand import expand
from sim.toolchain.compiler.passes.full_unroll import unroll_fully
from sim.toolchain.compiler.passes.if_conversion import if_convert
from sim.toolchain.compiler.passes.legalise import legalise
from sim.toolchain.compiler.passes.licm import hoist_invariants
from sim.toolchain.compiler.passes.rotate import rotate
from sim.toolchain.compiler.passes.simplify_cfg import simplify_cfg
from sim.toolchain.compiler.passes.unroll import unroll
from sim.toolchain.compiler.passes.webs import reaching_webs
from sim.toolchain.compiler.regalloc.color import allocate
from testbench.compiler.passes import after, selected

_Pass = Callable[[Function], object]


def _with_definitions(step: Callable[[Function, Definitions], bool]) -> _Pass:
    """Returns a pass for a step of the optimizer that needs single definitions."""
    return lambda function: step(function, Definitions(function))


def _in_registers(limit: int) -> _Pass:
    """Returns register allocation with ``limit`` registers as a pass."""
    return lambda function: allocate(function, limit)


@dataclass(frozen=True)
class _Case:
    """The output of some passes for a kernel's body; ``off`` is the pass that is omitted to check
    that it matters.
    """

    passes: tuple[_Pass, ...]
    body: str
    expected: str
    off: int = -1


CASES = {
    "a_block_that_only_leads_on_is_skipped": _Case(
        (simplify_cfg,),
        "mov.u32 a, %tid.x; bra A; A: bra B; C: mov.u32 b, 1; B: st.shared.u32 [a], b;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  STS %v2, %v3
  exit""",
        0,
    ),
    "meanings_of_a_register_get_names_of_their_own": _Case(
        (simplify_cfg, reaching_webs),
        "mov.u32 a, %tid.x; mov.u32 b, 1; st.shared.u32 [a], b; mov.u32 b, a; "
        "st.shared.u32 [a+4], b;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV 0x1
  STS %v2, %v3
  %v4 = MOV %v2
  STS %v2, %v4, +0x4
  exit""",
        1,
    ),
    "operations_on_numbers_are_folded": _Case(
        (simplify_cfg, reaching_webs, fold_constants),
        "mov.u32 a, %tid.x; add.u32 b, 2, 3; and.b32 c, a, 0; st.shared.u32 [a], b; "
        "st.shared.u32 [a], c;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV 0x5
  %v4 = MOV 0x0
  STS %v2, %v3
  STS %v2, %v4
  exit""",
        2,
    ),
    "copies_and_numbers_are_propagated": _Case(
        (simplify_cfg, reaching_webs, _with_definitions(propagate)),
        "mov.u32 a, %tid.x; mov.u32 b, 7; mov.u32 c, a; add.u32 d, c, b; st.shared.u32 [c], d;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV 0x7
  %v4 = MOV %v1
  %v5 = IADD %v1, 0x7
  STS %v1, %v5
  exit""",
        2,
    ),
    "an_equal_operation_is_done_once": _Case(
        (
            simplify_cfg,
            reaching_webs,
            _with_definitions(propagate),
            _with_definitions(share_subexpressions),
        ),
        "mov.u32 a, %tid.x; add.u32 b, a, 3; add.u32 c, a, 3; st.shared.u32 [b], c;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = IADD %v1, 0x3
  %v4 = MOV %v3
  STS %v3, %v4
  exit""",
        3,
    ),
    "a_shift_and_a_sum_are_one_instruction": _Case(
        (simplify_cfg, reaching_webs, _with_definitions(propagate), _with_definitions(combine)),
        "mov.u32 a, %tid.x; shl.b32 b, a, 2; add.u32 c, b, a; st.shared.u32 [c], a;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = SHL %v1, 0x2
  %v4 = ISCADD %v1, %v1, shift=0x2
  STS %v4, %v1
  exit""",
        3,
    ),
    "what_nobody_uses_goes": _Case(
        (simplify_cfg, remove_dead_code),
        "mov.u32 a, %tid.x; add.u32 b, a, 3; st.shared.u32 [a], a;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  STS %v2, %v2
  exit""",
        1,
    ),
    "an_upper_word_of_a_product_takes_an_addend": _Case(
        (simplify_cfg, _with_definitions(propagate), _with_definitions(combine)),
        "mov.u32 a, %tid.x; ld.shared.u32 b, [a]; mad.hi.u32 c, a, b, b; mad.hi.s32 d, a, b, b; "
        "st.shared.u32 [a], c; st.shared.u32 [a], d;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = LDS.U.32 %v1
  %v4 = MOV %v3
  %v5 = MULHI %v1, %v3
  %v6 = MULHI %v1, %v3, %v3
  %v7 = MULHI %v1, %v3
  %v8 = IADD %v7, %v3
  STS %v1, %v6
  STS %v1, %v8
  exit""",
        2,
    ),
    "sums_and_comparisons_of_numbers_are_computed": _Case(
        (simplify_cfg, expand),
        "mov.u32 a, %tid.x; sub.u64 e, 5, 0x100000003; st.shared.u64 [a], e; "
        "setp.lt.s64 p, -1, 1; @p st.shared.u32 [a], a;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV 0x2
  %v4 = MOV 0xffffffff
  STS.64 %v2, %v3, %v4
  %p1, _ = PSETP.AND.AND 0x1, 0x1, 0x1
  %p2, _ = PSETP.AND.AND %p1, 0x1, 0x1
  @%p2 STS %v2, %v2
  exit""",
        1,
    ),
    "pseudo_instructions_are_taken_apart": _Case(
        (simplify_cfg, expand),
        "mov.u32 a, %tid.x; mul.lo.u32 b, a, 8; add.u64 e, f, g; st.shared.u32 [a], b; "
        "st.shared.u64 [a], e;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = SHL %v2, 0x3
  %v6 = IADD.CC %v4, %v5
  %v9 = IADD.X %v7, %v8
  STS %v2, %v3
  STS.64 %v2, %v6, %v9
  exit""",
        1,
    ),
    "numbers_that_no_form_has_go_into_registers": _Case(
        (simplify_cfg, legalise),
        "mov.u32 a, %tid.x; add.u32 b, 5, a; lop3.b32 c, a, 0x12345678, b, 0x96; "
        "st.shared.u32 [a], c;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = IADD %v2, 0x5
  %v4 = MOV 0x12345678
  %v5 = LOP3.LUT %v2, %v4, %v3, lut=0x96
  STS %v2, %v5
  exit""",
        1,
    ),
    "a_short_body_is_guarded": _Case(
        (simplify_cfg, if_convert),
        "mov.u32 a, %tid.x; setp.lt.u32 p, a, 5; @p bra E; add.u32 b, a, 1; "
        "E: st.shared.u32 [a], b;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %p1, _ = ISETP.LT.U32.AND %v2, 0x5, 0x1
  @~%p1 %v3 = IADD %v2, 0x1
  goto B1
B1:
  STS %v2, %v3
  exit""",
        1,
    ),
    "a_loop_tests_at_its_end": _Case(
        (simplify_cfg, rotate),
        "mov.u32 a, %tid.x; mov.u32 i, 0; H: setp.ge.u32 p, i, a; @p bra E; "
        "st.shared.u32 [a], i; add.u32 i, i, 1; bra H; E: st.shared.u32 [a], b;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV 0x0
  goto B1
B1:
  %p1, _ = ISETP.GE.U32.AND %v3, %v2, 0x1
  branch %p1 B4 B2
B2:
  STS %v2, %v3
  %v3 = IADD %v3, 0x1
  goto B3
B3:
  %p1, _ = ISETP.GE.U32.AND %v3, %v2, 0x1
  branch %p1 B4 B2
B4:
  STS %v2, %v4
  exit""",
        1,
    ),
    "a_loop_of_three_iterations_is_written_out": _Case(
        (simplify_cfg, unroll_fully, simplify_cfg),
        "mov.u32 a, %tid.x; mov.u32 i, 0; H: st.shared.u32 [a], i; add.u32 i, i, 1; "
        "setp.lt.u32 p, i, 3; @p bra H; st.shared.u32 [a], b;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV 0x0
  STS %v2, %v3
  %v3 = IADD %v3, 0x1
  %p1, _ = ISETP.LT.U32.AND %v3, 0x3, 0x1
  STS %v2, %v3
  %v3 = IADD %v3, 0x1
  %p1, _ = ISETP.LT.U32.AND %v3, 0x3, 0x1
  STS %v2, %v3
  %v3 = IADD %v3, 0x1
  %p1, _ = ISETP.LT.U32.AND %v3, 0x3, 0x1
  STS %v2, %v4
  exit""",
        1,
    ),
    "a_counted_loop_does_four_iterations_at_a_time": _Case(
        (simplify_cfg, unroll),
        "mov.u32 a, %tid.x; ld.param.u32 n, [x]; mov.u32 i, 0; "
        "H: st.shared.u32 [a], i; add.u32 i, i, 1; setp.lt.u32 p, i, n; @p bra H; "
        "st.shared.u32 [a], b;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV c[0x0][0x140]
  %v4 = MOV %v3
  %v5 = MOV 0x0
  goto B1
B1:
  %v6 = IADD %v4, -%v5
  %p1, _ = ISETP.LT.U32.AND %v5, %v4, 0x1
  %p2, _ = ISETP.GT.U32.AND %v6, 0x3, %p1
  branch %p2 B2 B4
B2:
  STS %v2, %v5
  %v5 = IADD %v5, 0x1
  STS %v2, %v5
  %v5 = IADD %v5, 0x1
  STS %v2, %v5
  %v5 = IADD %v5, 0x1
  STS %v2, %v5
  %v5 = IADD %v5, 0x1
  %v7 = IADD %v4, -%v5
  %p1, _ = ISETP.LT.U32.AND %v5, %v4, 0x1
  %p2, _ = ISETP.GT.U32.AND %v7, 0x3, %p1
  branch %p2 B2 B3
B3:
  branch %p1 B4 B5
B4:
  STS %v2, %v5
  %v5 = IADD %v5, 0x1
  %p3, _ = ISETP.LT.U32.AND %v5, %v4, 0x1
  branch %p3 B4 B5
B5:
  STS %v2, %v8
  exit""",
        1,
    ),
    "what_is_the_same_in_each_iteration_is_computed_before": _Case(
        (simplify_cfg, reaching_webs, add_preheaders, hoist_invariants),
        "mov.u32 a, %tid.x; mov.u32 i, 0; H: add.u32 b, a, 5; st.shared.u32 [a], b; "
        "add.u32 i, i, 1; setp.lt.u32 p, i, a; @p bra H;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = MOV 0x0
  %v4 = IADD %v2, 0x5
  goto B1
B1:
  STS %v2, %v4
  %v3 = IADD %v3, 0x1
  %p1, _ = ISETP.LT.U32.AND %v3, %v2, 0x1
  branch %p1 B1 B2
B2:
  exit""",
        3,
    ),
    "a_carry_that_a_branch_comes_between_is_kept": _Case(
        (simplify_cfg, keep_carries),
        "mov.u32 a, %tid.x; add.cc.u32 b, a, 1; setp.lt.u32 p, a, 5; @p bra E; "
        "mov.u32 c, 1; E: addc.u32 d, a, 0; st.shared.u32 [a], d;",
        """
B0:
  %v1 = S2R special=SR_TID.X
  %v2 = MOV %v1
  %v3 = IADD.CC %v2, 0x1
  %v4 = IADD.X 0x0, 0x0
  %p1, _ = ISETP.LT.U32.AND %v2, 0x5, 0x1
  branch %p1 B2 B1
B1:
  %v5 = MOV 0x1
  goto B2
B2:
  _ = IADD.CC %v4, 0xffffffff
  %v6 = IADD.X %v2, 0x0
  STS %v2, %v6
  exit""",
        1,
    ),
    "neighbours_get_copies_and_coalescing_drops_them": _Case(
        (simplify_cfg, allocate),
        "mov.u32 a, %tid.x; ld.shared.v2.u32 {b, c}, [a]; st.shared.v2.u32 [a+8], {b, c};",
        """
B0:
  R0 = S2R special=SR_TID.X
  R2, R3 = LDS.U.64 R0
  STS.64 R0, R2, R3, +0x8
  exit""",
        1,
    ),
    "what_finds_no_register_is_spilled": _Case(
        (simplify_cfg, reaching_webs, _in_registers(4)),
        "mov.u32 a, %tid.x; add.u32 b, a, 1; add.u32 c, a, 2; add.u32 d, a, 3; "
        "st.shared.u32 [a], b; st.shared.u32 [a], c; st.shared.u32 [a], d;",
        """
B0:
  R0 = S2R special=SR_TID.X
  R2 = IADD R0, 0x1
  R3 = IADD R0, 0x2
  STL R1, R3
  R3 = IADD R0, 0x3
  STS R0, R2
  R2 = LDL R1
  STS R0, R2
  STS R0, R3
  exit""",
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pass_makes_of_a_function(name):
    case = CASES[name]
    assert after(case.body, *case.passes) == case.expected.strip("\n")


@pytest.mark.parametrize("name", CASES)
def test_without_the_pass_the_listing_is_another_one(name):
    case = CASES[name]
    others = [step for at, step in enumerate(case.passes) if at != case.off]
    assert after(case.body, *others) != case.expected.strip("\n")


@pytest.mark.parametrize(
    ("value", "signed", "number"),
    [
        (0x7FFF_FFFF, True, 0x7FFF_FFFF),
        (0x8000_0000, True, -0x8000_0000),
        (0xFFFF_FFFF, True, -1),
        (0xFFFF_FFFF, False, 0xFFFF_FFFF),
        (5, True, 5),
    ],
)
def test_a_counter_is_compared_as_a_number_with_or_without_sign(value, signed, number):
    assert full_unroll._as(value, signed) == number


@pytest.mark.parametrize(
    ("statement", "unrolled"),
    [("st.shared.u32 [64], i;", True), ("bar.sync 0;", False), ("bar.arrive 1, 64;", False)],
)
def test_a_loop_with_a_barrier_is_not_unrolled(statement, unrolled):
    body = (
        "ld.param.u32 n, [x]; mov.u32 i, 0; "
        f"H: {statement} add.u32 i, i, 1; setp.lt.u32 p, i, n; @p bra H; st.shared.u32 [64], i;"
    )
    assert (after(body, simplify_cfg, unroll) != after(body, simplify_cfg)) == unrolled


def test_branches_that_an_unrolled_loop_adds_are_taken_by_all_threads_alike():
    """The branches are uniform even if only some threads reach the loop: the counter starts at a
    constant, and the limit is a constant.
    """
    function = selected(
        "mov.u32 a, %tid.x; setp.lt.u32 p, a, 5; @p bra E; ld.param.u32 n, [x]; mov.u32 i, 0; "
        "H: st.shared.u32 [a], i; add.u32 i, i, 1; setp.lt.u32 q, i, n; @q bra H; E: st.shared.u32 [a], b;"
    )
    simplify_cfg(function)
    before = set(function.blocks)
    unroll(function)
    added = [block for block in function.blocks if block not in before]
    assert [len(block.successors) for block in added] == [2, 2, 2]
    assert all(block.uniform for block in added)
    divergent = divergent_blocks(function, LoopLevels(function))
    assert function.blocks[0] in divergent and not divergent & set(added)
