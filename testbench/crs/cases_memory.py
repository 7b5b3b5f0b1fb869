"""Directed cases of a stack in memory: write-backs, the stack pointer, holes, faults, moved
regions.
"""

from dataclasses import replace

from rtl.isa.errors import WarpError
from rtl.isa.tokens import (
    CRS_GRANULE,
    LINE_BYTES,
    TOKEN_BYTES,
    TOKENS_PER_LINE,
    TRAP_RESERVE,
    TokenKind,
)
from rtl.layouts import DEPTH_BITS, StackOperation, ThreadCode
from sim.launch.launch import CRS_LIMIT
from testbench.crs.cases import USER_LIMIT, launched, numbered, pushed, taken_off
from testbench.crs.reference import Outcome, Request, encode_token
from testbench.crs.steps import Source, Start, Step, WarpStack, aimed_at, push, unwind, whole_lines

_FAULT = Outcome(error=WarpError.MMU_FAULT)
_HOLE = bytes(TOKEN_BYTES)


def _get(stack: WarpStack) -> Step:
    return stack.ask(StackOperation.GET_POINTER)


def _set(stack: WarpStack, value: int) -> Step:
    return stack.ask(StackOperation.SET_POINTER, value)


def _write_back(stack: WarpStack) -> Step:
    return stack.ask(StackOperation.WRITE_BACK)


def _example(stack: WarpStack) -> Source:
    """The pointer of 125 tokens reads 128; they are popped from memory below three holes"""
    yield stack.launch(9)
    for index in range(125):
        yield push(TokenKind.SYNC, 8 * index, 1 << index % 32)
    pointer = yield _get(stack)
    assert pointer.value == 128
    yield _write_back(stack)
    assert [token.pc for token in stack.stored(0, 128)] == [8 * index for index in range(125)] + [
        0,
        0,
        0,
    ]
    assert (yield _set(stack, 128)).error is WarpError.NONE
    assert (yield _get(stack)).value == 128
    for index in reversed(range(125)):
        assert (yield unwind({ThreadCode.NONE: 1 << index % 32})).pc == 8 * index
        assert stack.depth == index
    assert (yield _get(stack)).value == 0


def _bytes(stack: WarpStack) -> Source:
    """Tokens in memory have the documented bytes, with holes up to a whole line"""
    yield stack.launch(1)
    yield push(TokenKind.RETURN, 0x1122_3348, 0x5566_7788, operation=StackOperation.CALL)
    yield push(TokenKind.LONGJMP, 0xFFFF_FFF8, 0x8000_0001)
    yield _write_back(stack)
    expected = (
        bytes.fromhex("48332211 88776655 05 01 000000000000f8ffffff 01000080 07 00 000000000000")
        + 2 * _HOLE
    )
    assert stack.memory.read(stack.region, LINE_BYTES) == expected
    yield from pushed(2, 4)
    yield from taken_off(stack, 1)
    yield _write_back(stack)
    assert (
        stack.memory.read(stack.region, LINE_BYTES)
        == expected[:32] + encode_token(numbered(2)) + _HOLE
    )


def _write_backs(stack: WarpStack) -> Source:
    """After a write-back memory is current at every depth, and the stack is unchanged"""
    yield stack.launch(2)
    for depth in (0, 1, 3, 4, 5, 15, 16, 17, 31, USER_LIMIT):
        yield from pushed(0, depth)
        yield _write_back(stack)
        yield _write_back(stack)
        yield from taken_off(stack, min(depth, 6))
        yield _write_back(stack)
        yield from taken_off(stack, stack.depth)


def _clamps(stack: WarpStack) -> Source:
    """SET_POINTER rounds the depth up to whole lines and clamps it to the limit of the mode"""
    for trap, limit in ((0, USER_LIMIT), (1, USER_LIMIT + TRAP_RESERVE)):
        yield stack.launch(2)
        yield stack.ask(StackOperation.SET_MODE, trap)
        yield _write_back(stack)
        stack.learn()
        for value, depth in (
            (0, 0),
            (1, 4),
            (4, 4),
            (5, 8),
            (limit - 1, limit),
            (limit, limit),
            (limit + 1, limit),
            (1 << 16, limit),
            ((1 << 17) - 1, limit),
        ):
            yield _set(stack, 0x7F << 23 | value)
            assert (yield _get(stack)).value == 0x7F << 23 | depth
            assert stack.depth == depth
        assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
        yield _set(stack, 1 << 31 | 0x3F << 17 | 17 << 23 | 3)
        assert (yield _get(stack)).value == 1 << 31 | 17 << 23 | 4


def _deepest(stack: WarpStack) -> Source:
    """In the largest region tokens are pushed and popped at every power of two and at the limit"""
    limit = CRS_LIMIT // TOKEN_BYTES - TRAP_RESERVE
    yield stack.launch(CRS_LIMIT // CRS_GRANULE)
    for depth in (*(1 << bit for bit in range(6, DEPTH_BITS - 1)), limit - 8):
        yield _set(stack, depth)
        yield _set(stack, 0)
        stack.overwrite(
            depth - 8, b"".join(encode_token(numbered(index)) for index in range(depth - 8, depth))
        )
        yield _set(stack, depth)
        yield from pushed(depth, depth + 8)
        assert (yield _get(stack)).value == depth + 8
        if depth + 8 == limit:
            assert (yield push(TokenKind.SYNC)).error is WarpError.STACK_OVERFLOW
        yield from taken_off(stack, 14)


def _forgets(stack: WarpStack) -> Source:
    """SET_POINTER drops the lines on chip without writing them back"""
    yield from launched(stack, 1, 3)
    yield _set(stack, 4)
    assert stack.memory.read(stack.region, LINE_BYTES) == 4 * _HOLE
    assert (yield unwind({ThreadCode.EXIT: 1})).empty
    yield from pushed(0, 6)
    yield _write_back(stack)
    yield from taken_off(stack, 3)
    yield push(TokenKind.QUAD)
    yield _set(stack, 8)
    yield from taken_back(stack, 6)


def taken_back(stack: WarpStack, count: int) -> Source:
    """Pops the lowest ``count`` numbered tokens, with any holes above each of them."""
    for index in reversed(range(count)):
        assert (yield unwind(aimed_at(numbered(index)))).pc == numbered(index).pc
        assert stack.depth == index


def _holes(stack: WarpStack) -> Source:
    """An unwind skips holes anywhere in memory, also whole lines of them"""
    tokens = 24
    for kept in (0x80_0001, 0x00_8420, 0xF0_000F, 0x00_0000, 0x00_1000):
        yield stack.launch(2)
        yield _write_back(stack)
        stack.learn()
        stack.overwrite(
            0,
            b"".join(
                encode_token(numbered(index)) if kept >> index & 1 else _HOLE
                for index in range(tokens)
            ),
        )
        yield _set(stack, tokens)
        for index in reversed(range(tokens)):
            if kept >> index & 1:
                assert (yield unwind(aimed_at(numbered(index)))).pc == numbered(index).pc
        assert (yield unwind({ThreadCode.EXIT: 1})).empty


def _strange_kinds(stack: WarpStack) -> Source:
    """An undefined kind in memory makes the unwind fail; undefined bits are ignored"""
    for kind in (0x09, 0x0F, 0x0A, 0x0B, 0x08, 0x10, 0x11, 0xFF):
        yield stack.launch(1)
        yield _write_back(stack)
        stack.learn()
        stack.overwrite(0, bytes.fromhex("40000000 ffffffff") + bytes([kind, 0]) + bytes(6))
        yield _set(stack, 4)
        # With all threads killed the warp would end if the token were skipped.
        assert (yield unwind({})).error is WarpError.STACK_ERROR
        assert (yield _get(stack)).value == 4
    yield _set(stack, 1 << 23)
    yield _write_back(stack)
    stack.overwrite(0, bytes.fromhex("40000000 0f000000 05 ff ffffffffffff"))
    yield _set(stack, 1 << 23 | 4)
    assert (yield unwind({ThreadCode.RETURN: 1})).pc == 0x40
    assert (yield _get(stack)).value == 0


def _quad_in_memory(stack: WarpStack) -> Source:
    """POP_QUAD finds a QUAD token under holes in memory"""
    yield from launched(stack, 2, 5)
    yield push(TokenKind.QUAD, 0, 0xFF)
    for depth in (8, 24, USER_LIMIT):
        yield _write_back(stack)
        stack.learn()
        yield _set(stack, depth)
        assert (yield unwind({ThreadCode.NONE: 0xF0}, quad=True)).mask == 0xF0
        assert stack.depth == 5
        yield push(TokenKind.QUAD, 0, 0xFF)


def _moves(stack: WarpStack) -> Source:
    """GET_BASE returns the base address of the warp's memory; SET_BASE moves it with the stack"""
    yield stack.launch(2, local=3)
    assert (yield stack.ask(StackOperation.GET_BASE)).value == stack.reference.base
    yield from pushed(0, 40)
    yield _write_back(stack)
    content = stack.memory.read(stack.region, 40 * TOKEN_BYTES)
    base = stack.allocate(3 + 2)
    yield stack.ask(StackOperation.SET_BASE, base)
    assert (yield stack.ask(StackOperation.GET_BASE)).value == base
    stack.overwrite(0, content)
    yield _set(stack, 40)
    yield from taken_off(stack, 40)


def _fault_on_spill(stack: WarpStack) -> Source:
    """Each spilled line that memory refuses is a fault of its warp"""
    yield stack.launch(2)
    unmapped = range(stack.region + 2 * LINE_BYTES, stack.region + stack.size)
    stack.memory.refusing.add(unmapped)
    yield from pushed(0, 5 * TOKENS_PER_LINE)
    yield Step(Request(StackOperation.WRITE_BACK), fault=Outcome())
    stack.memory.refusing.remove(unmapped)
    refused = {
        address - stack.region for address in stack.memory.refused_writes if address in unmapped
    }
    assert refused == {2 * LINE_BYTES, 3 * LINE_BYTES, 4 * LINE_BYTES}


def _patiently(stack: WarpStack, step: Step) -> Source:
    """Repeats a step once if it fails: a line that memory refused earlier may still be in
    flight.
    """
    outcome = yield replace(step, may_fault=True)
    if outcome.error is WarpError.MMU_FAULT:
        yield _get(stack)
        outcome = yield step
    assert outcome.error is WarpError.NONE


def _fault_on_fill(stack: WarpStack) -> Source:
    """An unwind that needs a line that memory refuses fails and changes nothing"""
    yield stack.launch(3)
    region = range(stack.region, stack.region + stack.size)
    for depth, wanted in ((stack.on_chip + 1, 0), (42, 12), (64, 40)):
        yield from pushed(stack.depth, depth)
        yield _write_back(stack)
        stack.memory.refusing.add(region)
        for _ in range(2):
            yield Step(
                Request(StackOperation.UNWIND, codes=aimed_at(numbered(wanted))), fault=_FAULT
            )
            assert (yield _get(stack)).value == whole_lines(depth)
        # the line of this token may have been spilled
        yield replace(push(TokenKind.SYNC), may_fault=True)
        stack.memory.refusing.remove(region)
        yield from _patiently(stack, unwind(aimed_at(numbered(wanted))))
        assert stack.depth == wanted
    yield from taken_off(stack, stack.depth)


def _under_way(stack: WarpStack) -> Source:
    """A write-back requested while lines are in flight ends when memory has all of them"""
    for depth in range(9, 17):
        for idle in range(12):
            yield from launched(stack, 2, depth)
            for _ in range(idle):
                yield None
            yield _write_back(stack)


def _in_vain(stack: WarpStack) -> Source:
    """A refused fill of an unwind that failed does not affect the next unwind"""
    yield from launched(stack, 2, 11)
    yield push(TokenKind.QUAD)
    yield from pushed(12, 28)
    yield _write_back(stack)
    refused = range(stack.region, stack.region + 2 * LINE_BYTES)
    stack.memory.refusing.add(refused)
    for _ in range(16):
        assert (yield unwind(aimed_at(numbered(0)))).error is WarpError.STACK_ERROR
    stack.memory.refusing.remove(refused)
    yield from taken_off(stack, 16)


CASES: tuple[Start, ...] = (
    _example,
    _bytes,
    _write_backs,
    _clamps,
    _deepest,
    _forgets,
    _holes,
    _strange_kinds,
    _quad_in_memory,
    _moves,
    _fault_on_spill,
    _fault_on_fill,
    _under_way,
    _in_vain,
)
"""All cases of this file. Each begins with a launch."""
