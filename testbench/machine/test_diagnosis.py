"""What is said of the warps of a machine that does not continue: what they wait for, their masks and their stacks."""

from typing import Any

import pytest

from rtl.crs.records import stack_state
from rtl.isa.tokens import TOKEN_BYTES, TokenKind
from rtl.layouts import DEPTH_BITS, ThreadCode, WaitReason
from rtl.params import PRESETS
from sim.launch import LOCAL_MEMORY
from sim.launch.memory import Memory
from sim.machine import diagnosis
from sim.machine.diagnosis import REASON_TEXTS, diagnose, instruction_text, warp_states
from sim.machine.warp_state import SHOWN_TOKENS, WarpState
from sim.model.warp.retirement import StackToken, WarpMasks
from sim.model.warp.stack import encode_token
from testbench.fakes import fake
from testbench.machine.recorded import launch_of

real_stack = diagnosis._stack
TEXT = ".kernel k\nNOP\nEXIT\n"
LOCAL, BLOCK = 16, 2048


class Now:
    """Everything has the value that it is."""

    def get(self, value):
        return value


def machine(reasons, *, barrier=0, depth=0, lines=0, codes=None, last=0):
    """A pipelined machine, each of whose warps has the same threads and the same stack."""
    codes = [ThreadCode.NONE.value] * 32 if codes is None else codes
    warps = range(len(reasons))
    core = fake(
        reasons=[reason.value for reason in reasons],
        barrier=fake(
            waiting=barrier, arrivals=fake(data=[fake(number=5 + warp) for warp in warps])
        ),
        issue=fake(last=fake(data=[last] * len(reasons))),
        flow=fake(states=fake(data=[fake(active=0xF0, codes=codes)] * len(reasons))),
        stack=fake(depth=depth, lines=lines),
    )
    return fake(core=core)


@pytest.fixture(autouse=True)
def stack(monkeypatch):
    """Tokens on chip have their index for a pc."""
    monkeypatch.setattr(
        diagnosis, "_stack", lambda _ctx, stack, _warp: (stack.depth, 2, stack.lines, on_chip)
    )


def on_chip(_ctx, _stack, warp, index):
    return StackToken(TokenKind.SYNC, index, warp)


def launch():
    made: Any = launch_of(TEXT)
    return fake(memory=made.memory, program_base=made.program_base, warp_block=BLOCK, local=LOCAL)


def memory(size=2 * BLOCK):
    """With the program, and local memory of zeros."""
    made: Memory = launch_of(TEXT).memory.copy()
    made.map(LOCAL_MEMORY, 0x1_0000, size)
    return made


def test_live_warps_are_shown_with_their_masks_by_the_codes_of_their_threads():
    codes = [0] * 32
    for thread, code in (
        (0, ThreadCode.BREAK),
        (3, ThreadCode.EXIT),
        (31, ThreadCode.EXIT),
        (9, ThreadCode.KILLED),
    ):
        codes[thread] = code.value
    sm = machine([WaitReason.NOT_LIVE, WaitReason.FLOW], codes=codes)
    states = warp_states(Now(), sm, launch(), memory())
    assert states.keys() == {1}
    assert states[1].masks == WarpMasks(0xF0, broken=1, exited=1 << 3 | 1 << 31, killed=1 << 9)
    assert (states[1].depth, states[1].calls, states[1].tokens) == (0, 2, ())


def test_each_warp_says_what_it_waits_for_and_what_it_issued():
    sm = machine([WaitReason.FETCH, WaitReason.RESUME], barrier=0b10, last=8)
    lines = diagnose(Now(), sm, launch(), memory())
    assert lines[0] == f"warp 0: {REASON_TEXTS[WaitReason.FETCH]}"
    assert lines[1].startswith("  issued last 0x0008  ") and lines[1].endswith("  NOP")
    assert lines[2] == "  masks         active 000000f0"
    assert "warp 1: waits at barrier 6" in lines
    assert diagnose(Now(), machine([WaitReason.LANES]), launch(), memory())[1] == "  issued nothing"


def test_an_instruction_outside_of_memory_is_said_to_be_nothing():
    assert instruction_text(launch(), launch().memory, 1 << 30) == "0x40000000  nothing is there"


def test_tokens_on_chip_are_read_there_and_others_in_the_block_of_the_warps_slot():
    """Of 20 tokens, those of the two lowest lines are in memory, which has zeros."""
    per_line = 64 // TOKEN_BYTES
    sm = machine([WaitReason.FLOW] * 2, depth=20, lines=-(-20 // per_line) - 2)
    states = warp_states(Now(), sm, launch(), memory())
    for warp, state in states.items():
        assert state.depth == 20 and len(state.tokens) == SHOWN_TOKENS == 16
        kinds = [token.kind for token in state.tokens]
        on_top = 20 - 2 * per_line  # the two lowest lines are in memory
        assert kinds == [TokenKind.SYNC] * min(on_top, 16) + [TokenKind.NONE] * (
            16 - min(on_top, 16)
        )
        assert [token.pc for token in state.tokens[:on_top]] == list(
            range(19, 19 - min(on_top, 16), -1)
        )
        assert {token.mask for token in state.tokens[:on_top]} == {warp}


def test_a_stack_whose_memory_faults_is_shown_as_far_as_it_can_be_read():
    (state,) = warp_states(
        Now(), machine([WaitReason.FLOW], depth=20, lines=1), launch(), memory(64)
    ).values()
    per_line = 64 // TOKEN_BYTES
    on_top = 20 - (-(-20 // per_line) - 1) * per_line
    assert [token.pc for token in state.tokens] == list(range(19, 19 - on_top, -1))
    assert state.unreadable
    assert state.stack_lines()[-1] == (
        f"     {20 - on_top} tokens in memory that faults: {state.unreadable}"
    )


def test_tokens_in_memory_are_those_of_their_places_in_the_warps_block():
    """Behind the local memory of the block's threads, 16 bytes each."""
    made = memory()
    for warp in range(2):
        for index in range(8):
            token = StackToken(TokenKind.BREAK, 0x100 * warp + 8 * index, index + 1, counted=True)
            place = 0x1_0000 + warp * BLOCK + 32 * LOCAL + index * TOKEN_BYTES
            made.write(place, encode_token(token))
    sm = machine([WaitReason.FLOW] * 2, depth=8, lines=1)
    for warp, state in warp_states(Now(), sm, launch(), made).items():
        in_memory = 8 - 64 // TOKEN_BYTES
        expected = [
            StackToken(TokenKind.BREAK, 0x100 * warp + 8 * index, index + 1, counted=True)
            for index in reversed(range(in_memory))
        ]
        assert list(state.tokens[-in_memory:]) == expected


@pytest.mark.parametrize(
    ("last", "entered", "below", "depth", "lines"),
    [((1 << DEPTH_BITS) - 1, 0, 0, 0, 0), (19, 5, 2, 20, 3), (4, 1, 3, 5, None), (0, 1, 0, 1, 1)],
)
def test_a_stack_of_the_pipeline_is_what_both_copies_of_its_state_make(
    last, entered, below, depth, lines
):
    """Counters of lines are modulo twice the lines on chip."""
    params = PRESETS["tiny"]
    layout = stack_state(params)
    latest = layout.const({"last": last, "entered": entered, "calls": 7}).as_bits()
    for pushed in (0, 0x15A5):
        parts = [
            fake(data=[layout.from_bits(0), layout.from_bits(bits)])
            for bits in (pushed, latest ^ pushed)
        ]
        stack = fake(
            params=params,
            states=fake(states=fake(parts=parts), below=fake(data=[0, below])),
        )
        found = real_stack(Now(), stack, 1)
        modulo = 1 << params.stack_count_bits
        assert found[:3] == (depth, 7, (entered - below) % modulo if lines is None else lines)


def test_a_state_as_text_and_as_numbers():
    tokens = (
        StackToken(TokenKind.SYNC, 0x48, 0xFF),
        StackToken(TokenKind.RETURN, 0x50, 3, counted=True),
    )
    state = WarpState(WarpMasks(0xF, exited=0xF0), 5, 1, tokens)
    assert state.lines() == [
        "masks         active 0000000f exited 000000f0",
        "stack         5 tokens, 1 counted calls open, top first",
        "     SYNC pc=0x0048 mask=000000ff",
        "     RETURN pc=0x0050 mask=00000003 counted",
        "     3 more",
    ]
    assert WarpState(WarpMasks(1), 0, 0, ()).lines()[1:] == [
        "stack         0 tokens, 0 counted calls open"
    ]
    written = state.decoded()
    assert written["stack"] == {
        "depth": 5,
        "calls": 1,
        "top": ["SYNC pc=0x0048 mask=000000ff", "RETURN pc=0x0050 mask=00000003 counted"],
    }
    assert written["masks"] == {
        "active": 0xF, "broken": 0, "continued": 0, "returned": 0, "exited": 0xF0, "longjumped": 0, "killed": 0,
    }  # fmt: skip
