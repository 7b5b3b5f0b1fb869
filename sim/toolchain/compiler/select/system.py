"""Selection of moves, warp-wide operations, barriers and traps."""

from typing import Any

from rtl.isa.barriers import BARRIERS, PACKED_COUNT
from rtl.isa.kinds import (
    BarrierMode,
    BarrierRead,
    BarrierReduction,
    Boolean,
    BreakpointMode,
    Compare,
    Logic,
    MembarScope,
    ShuffleMode,
    VoteMode,
)
from sim.toolchain.compiler.ir import PT, RZ, WORD, Source, Terminator, Value, number
from sim.toolchain.compiler.opcodes import SHUFFLE_MASKS
from sim.toolchain.ptx.module import (
    FunctionRef,
    Operand,
    PtxImmediate,
    PtxInstruction,
    PtxScope,
    PtxSpecialRegister,
    PtxVector,
    Sink,
    Type,
)

from .builder import Builder, handles
from .special_registers import special_words

__all__: list[str] = []

_LANES, _CLAMPS = (SHUFFLE_MASKS[field] for field in ("lane", "clamp"))
"""The bits that SHFL reads of its second and third source."""


@handles("mov")
def _move(b: Builder, i: PtxInstruction) -> None:
    """Selects moves of words, vectors, addresses and special registers."""
    to, source = i.operands
    bits = i.type.bits
    if i.type is Type.PRED:
        b.op("PSETP", [b.write(to)[0], None], b.predicate(source), PT, PT)
    elif isinstance(to, PtxVector):
        _unpack(b, to, b.read(source, bits), bits)
    elif isinstance(source, PtxVector):
        b.move(b.write(to, bits), _pack(b, source, bits))
    elif isinstance(source, PtxSpecialRegister):
        words = special_words(b, source)
        b.move(b.write(to, bits), [*words, RZ][: len(b.write(to, bits))])
    elif isinstance(source, FunctionRef):
        b.move(
            b.write(to, bits), [number(b.layout.handles[source.name]), RZ][: len(b.write(to, bits))]
        )
    else:
        b.move(b.write(to, bits), b.read(source, bits))


def _pack(b: Builder, vector: PtxVector, bits: int) -> list[Source]:
    """Returns the words of a vector, lowest element first."""
    width = bits // len(vector.elements)
    if width >= 32:
        return [word for element in vector.elements for word in b.read(element, width)]
    words = []
    per_word = 32 // width
    for first in range(0, len(vector.elements), per_word):
        word = RZ
        for at, element in enumerate(vector.elements[first : first + per_word]):
            word = b.compute("BFI", b.word(element), number(at * width | width << 8), word)
        words.append(word)
    return words


def _unpack(b: Builder, vector: PtxVector, words: list[Source], bits: int) -> None:
    width = bits // len(vector.elements)
    results: list[Value | None] = []
    sources: list[Source] = []
    for at, element in enumerate(vector.elements):
        if width >= 32:
            part = words[at * width // 32 : (at + 1) * width // 32]
        else:
            place = at * width
            part = [
                b.compute("BFE", words[place // 32], number(place % 32 | width << 8), signed=False)
            ]
        results += b.write(element, width) if not isinstance(element, Sink) else [None] * len(part)
        sources += part
    held = [None if result is None else b.temporary() for result in results]
    b.move(held, sources)
    b.move(results, [RZ if value is None else Source(value) for value in held])


@handles("vote")
def _vote(b: Builder, i: PtxInstruction) -> None:
    p = b.predicate(i.operands[1])
    members = b.word(i.operands[2]) if i.sync else number(WORD)
    if members != number(WORD):
        _vote_of(b, i, p, members)
    elif i.operation == "ballot":
        b.op("VOTE", [b.write(i.operands[0])[0], None], p, mode=VoteMode.ANY)
    else:
        mode = {"all": VoteMode.ALL, "any": VoteMode.ANY, "uni": VoteMode.EQ}[i.operation]
        b.op("VOTE", [None, b.write(i.operands[0])[0]], p, mode=mode)


def _vote_of(b: Builder, i: PtxInstruction, p: Source, members: Source) -> None:
    """Selects a vote among the member threads. Threads may have different member masks, so all
    active threads vote, and each masks the result with its members.
    """
    result = b.write(i.operands[0])[0]
    if i.operation == "ballot":
        b.op("LOP", [result], _ballot(b, p), members, operation=Logic.AND)
        return
    yes, no = b.temporary(True), b.temporary(True)
    if i.operation != "any":
        against = b.compute("LOP", _ballot(b, p.invert()), members, operation=Logic.AND)
        b.compare(result if i.operation == "all" else no, Compare.EQ, against, RZ, signed=False)
    if i.operation != "all":
        for_it = b.compute("LOP", _ballot(b, p), members, operation=Logic.AND)
        b.compare(result if i.operation == "any" else yes, Compare.NE, for_it, RZ, signed=False)
    if i.operation == "uni":
        b.op(
            "PSETP",
            [result, None],
            Source(no),
            Source(yes, inverted=True),
            PT,
            combine_first=Boolean.OR,
        )


def _ballot(b: Builder, p: Source) -> Source:
    """Returns the mask of the active threads in which a predicate is true."""
    result = b.temporary()
    b.op("VOTE", [result, None], p, mode=VoteMode.ANY)
    return Source(result)


@handles("activemask")
def _active(b: Builder, i: PtxInstruction) -> None:
    b.op("VOTE", [b.write(i.operands[0])[0], None], PT, mode=VoteMode.ANY)


@handles("shfl")
def _shuffle(b: Builder, i: PtxInstruction) -> None:
    result, p = b.write(i.operands[0])[0], b.write(i.operands[1])[0]
    x, by, limits = (b.word(operand) for operand in i.operands[2:5])
    if isinstance(by.operand, int):
        by = number(by.operand & _LANES)
    if isinstance(limits.operand, int):
        limits = number(limits.operand & _CLAMPS)
    b.op("SHFL", [p, result], x, by, limits, mode=ShuffleMode[i.operation.upper()])


# Barriers


@handles("bar")
def _barrier(b: Builder, i: PtxInstruction) -> None:
    if i.operation == "warp":
        return
    if i.operation == "red":
        _barrier_reduction(b, i)
        return
    where, count = (*i.operands, None)[:2]
    _barrier_at(
        b, {"mode": BarrierMode.SYNC if i.operation == "sync" else BarrierMode.ARV}, where, count
    )
    b.op("MEMBAR", [], scope=MembarScope.CTA)


def _barrier_at(
    b: Builder,
    fields: dict[str, Any],
    where: Operand | None,
    count: Operand | None,
    *predicate: Source,
) -> None:
    """Adds an arrival at a barrier. Without ``count`` it waits for all threads; with ``predicate``
    it reduces the predicate.
    """
    assert where is not None
    known = isinstance(where, PtxImmediate)
    b.function.barriers = max(b.function.barriers, where.value + 1 if known else BARRIERS)
    sources = []
    for field, operand in (("barrier", where), ("count", count)):
        if isinstance(operand, PtxImmediate):
            fields[field] = operand.value
        elif operand is not None:
            sources.append(b.word(operand))
        else:
            fields[field] = 0
    if len(sources) == 2:
        lowest, width = PACKED_COUNT.pieces[0]
        sources = [b.compute("BFI", sources[1], number(lowest | width << 8), sources[0])] * 2
    b.op("BAR", [], *sources, *predicate, **fields)


def _barrier_reduction(b: Builder, i: PtxInstruction) -> None:
    to, where, count, p = i.operands
    fields: dict[str, Any] = {
        "mode": BarrierMode.RED,
        "reduction": BarrierReduction[i.reduction.upper()],
    }
    _barrier_at(b, fields, where, None if isinstance(count, Sink) else count, b.predicate(p))
    b.op("MEMBAR", [], scope=MembarScope.CTA)
    if i.reduction == "popc":
        b.op("B2R", [b.write(to)[0], None], mode=BarrierRead.RESULT)
    else:
        b.op("B2R", [None, b.write(to)[0]], mode=BarrierRead.RESULT)


_SCOPES = {
    PtxScope.CTA: MembarScope.CTA,
    PtxScope.GL: MembarScope.GL,
    PtxScope.SYS: MembarScope.SYS,
}


@handles("membar")
def _order(b: Builder, i: PtxInstruction) -> None:
    scope = _SCOPES[i.scope] if i.scope is not None else MembarScope.CTA
    b.op("MEMBAR", [], scope=scope, invalidate=scope is not MembarScope.CTA)


@handles("pmevent")
def _event(b: Builder, i: PtxInstruction) -> None:
    event = i.operands[0]
    assert isinstance(event, PtxImmediate)
    events = event.value if i.operation == "mask" else 1 << event.value
    b.op("NOP", [], trigger=True, imm16=events)


@handles("trap", "brkpt")
def _trap(b: Builder, i: PtxInstruction) -> None:
    behind = b.guarded_block()
    b.op("BPT", [], mode=BreakpointMode.TRAP, reason=1)
    if i.opcode == "trap":
        b.end(Terminator.EXIT)
        b.begin(b.new_block("after") if behind is None else behind)
    else:
        b.leave_guarded_block(behind)
