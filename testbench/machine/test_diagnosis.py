"""The diagnosis of a machine that has stopped: why each warp waits, its masks and its stack."""

from typing import Any

import pytest

from rtl.crs.records import stack_state
from rtl.crs.tokens import BODY_BITS, StoredToken
from rtl.isa.tokens import TOKEN_BYTES, TOKENS_PER_LINE, TokenKind
from rtl.layouts import DEPTH_BITS, ThreadCode, WaitReason
from rtl.params import PRESETS
from rtl.serial.core import SerialCore
from rtl.serial.crs import serial_stack_state
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
    """A simulation in which every signal has its own object as value."""

    def get(self, value):
        return value


def machine(reasons, *, barrier=0, depth=0, lines=0, codes=None, last=0):
    """Returns a pipelined machine whose warps all have the same threads and the same stack."""
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
    """Replaces the stack on chip by tokens whose pc is their index."""
    monkeypatch.setattr(
        diagnosis, "_stack", lambda _ctx, stack, _warp: (stack.depth, 2, stack.lines, on_chip)
    )


def on_chip(_ctx, _stack, warp, index):
    return StackToken(TokenKind.SYNC, index, warp)


def launch():
    made: Any = launch_of(TEXT)
    return fake(memory=made.memory, program_base=made.program_base, warp_block=BLOCK, local=LOCAL)


def memory(size=2 * BLOCK):
    """Returns memory with a program and zeroed local memory."""
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
    """Of 20 tokens, the two lowest lines are read from memory, which is zero."""
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
    """The stack's memory follows the local memory of the block's threads, 16 bytes each."""
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
    """Line counters count modulo twice the number of lines on chip."""
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


@pytest.mark.parametrize("below", range(8))
def test_lines_on_chip_are_the_difference_of_two_counters(below):
    """Line counters count modulo twice the number of lines on chip, which are four in a tiny
    machine.
    """
    params = PRESETS["tiny"]
    layout = stack_state(params)
    for lines in range(params.stack_lines + 1):
        entered = layout.const({"entered": (below + lines) % 8, "last": 3})
        parts = [fake(data=[entered]), fake(data=[layout.from_bits(0)])]
        states = fake(states=fake(parts=parts), below=fake(data=[below]))
        assert real_stack(Now(), fake(params=params, states=states), 0)[2] == lines


# Two warps on each kind of machine, defined by the contents of its memories. Their stacks have 22
# and 23 tokens in 6 lines, of which 3 are on chip, where their places wrap around.

DEPTHS, LINES, FIRST_ON_CHIP = (22, 23), 3, 12
KINDS = (TokenKind.SYNC, TokenKind.BREAK, TokenKind.RETURN)
CODES = [ThreadCode.NONE, ThreadCode.BREAK, ThreadCode.EXIT, ThreadCode.KILLED, ThreadCode.RETURN]


def token(warp, index):
    """Returns a token of a warp's stack that differs from all others."""
    return StackToken(
        KINDS[(index + warp) % 3], 0x800 * warp + 8 * index, 1 << index, counted=index % 2 == warp
    )


def code(warp, thread):
    return CODES[(thread + warp) % 5]


def active(warp):
    return 0x8000_0001 << warp & 0xFFFF_FFFF


def flow_of_pipeline():
    return fake(
        states=fake(
            data=[
                fake(active=active(warp), codes=[code(warp, thread).value for thread in range(32)])
                for warp in range(2)
            ]
        )
    )


def flow_of_serial():
    """Returns a word for each thread of each warp."""
    return fake(
        threads=fake(
            data=[
                fake(active=active(warp) >> thread & 1, code=code(warp, thread).value)
                for warp in range(2)
                for thread in range(32)
            ]
        )
    )


def stack_of_pipeline(params):
    """Returns the memories of the pipelined stack: one row a place of a line, with the upper token
    bits in other memories.
    """
    layout, rows = stack_state(params), 2 * params.stack_lines
    bodies, kinds = ([fake(data=[0] * rows) for _ in range(TOKENS_PER_LINE)] for _ in range(2))
    states = []
    for warp in range(2):
        for index in range(FIRST_ON_CHIP, DEPTHS[warp]):
            each = token(warp, index)
            bits = StoredToken.const(
                {"pc": each.pc, "mask": each.mask, "kind": each.kind, "counted": each.counted}
            ).as_bits()
            line = warp * params.stack_lines + index // TOKENS_PER_LINE % params.stack_lines
            bodies[index % TOKENS_PER_LINE].data[line] = bits & (1 << BODY_BITS) - 1
            kinds[index % TOKENS_PER_LINE].data[line] = bits >> BODY_BITS
        states.append(
            layout.const({"last": DEPTHS[warp] - 1, "entered": 1 + warp, "calls": 7 + warp})
        )
    parts = [fake(data=states), fake(data=[layout.from_bits(0)] * 2)]
    below = fake(data=[(1 + warp - LINES) % (2 * params.stack_lines) for warp in range(2)])
    return fake(
        params=params,
        states=fake(states=fake(parts=parts), below=below),
        tokens=fake(bodies=bodies, kinds=kinds),
    )


def stack_of_serial(params):
    """Returns the memory of the serial stack.

    A token is two words: mask and kind, then pc and whether it is counted. A stack's state is two
    words; the lower bits of the first hold the depth.
    """
    layout = serial_stack_state(params)
    words = [fake(note=0, bits=0)] * (4 * params.stack_tokens)
    states = []
    for warp in range(2):
        for index in range(FIRST_ON_CHIP, DEPTHS[warp]):
            each = token(warp, index)
            place = 2 * (warp * params.stack_tokens + index % params.stack_tokens)
            words[place] = fake(note=each.kind.value, bits=each.mask)
            words[place + 1] = fake(note=int(each.counted), bits=each.pc)
        state = layout.const(
            {
                "depth": DEPTHS[warp],
                "lines": LINES,
                "dirty": 1,
                "calls": 7 + warp,
                "kill": 1,
                "trap": 1,
            }
        )
        states += [state.as_bits() | 1 << layout.size, 0]
    return fake(
        params=params,
        states=fake(memory=fake(data=states)),
        tokens=fake(memory=fake(data=words)),
    )


@pytest.mark.parametrize("is_serial", [False, True])
def test_a_warps_state_is_read_from_the_words_of_its_machine(monkeypatch, is_serial):
    """For both kinds of machine: threads, masks, API calls, and the topmost tokens, on chip and in
    memory.
    """
    monkeypatch.setattr(diagnosis, "_stack", real_stack)
    params = PRESETS["least" if is_serial else "tiny"]
    core: Any = object.__new__(SerialCore) if is_serial else fake()
    core.reasons = [WaitReason.DRAIN.value] * 2
    core.flow = flow_of_serial() if is_serial else flow_of_pipeline()
    core.stack = (stack_of_serial if is_serial else stack_of_pipeline)(params)
    made = memory()
    for warp in range(2):
        for index in range(FIRST_ON_CHIP):
            place = 0x1_0000 + warp * BLOCK + 32 * LOCAL + index * TOKEN_BYTES
            made.write(place, encode_token(token(warp, index)))
    states = warp_states(Now(), fake(core=core), launch(), made)
    for warp in range(2):
        threads = {
            each: sum(1 << thread for thread in range(32) if code(warp, thread) is each)
            for each in CODES
        }
        assert states[warp] == WarpState(
            WarpMasks(
                active(warp),
                broken=threads[ThreadCode.BREAK],
                exited=threads[ThreadCode.EXIT],
                killed=threads[ThreadCode.KILLED],
                returned=threads[ThreadCode.RETURN],
            ),
            DEPTHS[warp],
            7 + warp,
            tuple(token(warp, DEPTHS[warp] - 1 - place) for place in range(SHOWN_TOKENS)),
        )


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
