"""Selection of moves, special registers, warp-wide operations, barriers and traps."""

from sim.toolchain.ptx.module import (
    FunctionRef,
    Immediate,
    Instruction,
    Scope,
    Sink,
    SpecialRegister,
    Type,
    Vector,
)

from .builder import Builder, constant, handles
from .ir import PT, RZ, Global, Source, Value, number
from .layout import DriverWord

__all__ = ["move"]

_ALL_LANES = 0xFFFF_FFFF
_AXES = {"x": 0, "y": 4, "z": 8}
_STATE = {"laneid": "SR_LANEID", "lanemask_eq": "SR_EQMASK", "lanemask_lt": "SR_LTMASK", "lanemask_le": "SR_LEMASK",
          "lanemask_gt": "SR_GTMASK", "lanemask_ge": "SR_GEMASK", "total_smem_size": "SR_SMEMSZ"}
_CLOCKS = {"clock": "SR_CLOCKLO", "clock_hi": "SR_CLOCKHI", "globaltimer_lo": "SR_GLOBALTIMERLO",
           "globaltimer_hi": "SR_GLOBALTIMERHI", **{f"pm{at}": f"SR_PM{at}" for at in range(8)}}
_LONG_CLOCKS = {"clock64": ("SR_CLOCKLO", "SR_CLOCKHI"), "globaltimer": ("SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI"),
                **{f"pm{at}_64": (f"SR_PM{at}", f"SR_PM_HI{at}") for at in range(8)}}
_FIELDS = {"warpid": ("SR_VIRTID", 0x608), "smid": ("SR_VIRTID", 0x914), "nsmid": ("SR_VIRTCFG", 0x914)}
_WARPS_OF_SM = 64


def move(b: Builder, i: Instruction) -> None:
    """mov: of words, of vectors, of addresses and of special registers."""
    to, source = i.operands
    bits = i.type.bits
    if i.type is Type.PRED:
        b.op("PSETP", [b.write(to)[0], None], b.predicate(source), PT, PT, mods=".AND.AND")
    elif isinstance(to, Vector):
        _unpack(b, to, b.read(source, bits), bits)
    elif isinstance(source, Vector):
        b.move(b.write(to, bits), _pack(b, source, bits))
    elif isinstance(source, SpecialRegister):
        words = _special(b, source)
        b.move(b.write(to, bits), [*words, RZ][:len(b.write(to, bits))])
    elif isinstance(source, FunctionRef):
        b.function.indirect = True
        b.move(b.write(to, bits), [Source(Global(source.name, code=True)), RZ][:len(b.write(to, bits))])
    else:
        b.move(b.write(to, bits), b.read(source, bits))


def _pack(b: Builder, vector: Vector, bits: int) -> list[Source]:
    """The words of a vector, elements lowest first."""
    width = bits // len(vector.elements)
    if width >= 32:
        return [word for element in vector.elements for word in b.read(element, width)]
    words = []
    per_word = 32 // width
    for first in range(0, len(vector.elements), per_word):
        word = RZ
        for at, element in enumerate(vector.elements[first:first + per_word]):
            word = b.compute("BFI", b.word(element), number(at * width | width << 8), word)
        words.append(word)
    return words


def _unpack(b: Builder, vector: Vector, words: list[Source], bits: int) -> None:
    width = bits // len(vector.elements)
    results: list[Value | None] = []
    sources: list[Source] = []
    for at, element in enumerate(vector.elements):
        if width >= 32:
            part = words[at * width // 32:(at + 1) * width // 32]
        else:
            place = at * width
            part = [b.compute("BFE", words[place // 32], number(place % 32 | width << 8), mods=".U32")]
        results += b.write(element, width) if not isinstance(element, Sink) else [None] * len(part)
        sources += part
    held = [None if result is None else b.temporary() for result in results]
    b.move(held, sources)
    b.move(results, [RZ if value is None else Source(value) for value in held])


def _special(b: Builder, register: SpecialRegister) -> list[Source]:
    """The words of a special register."""
    name, axis = register.name, register.component
    if name in ("tid", "ctaid"):
        return [b.compute("S2R", text=f"SR_{name.upper()}.{axis.upper()}")]
    if name in ("ntid", "nctaid"):
        base = DriverWord.NTID if name == "ntid" else DriverWord.NCTAID
        return [constant(0, base + _AXES[axis])]
    if name in _STATE:
        return [b.compute("S2R", text=_STATE[name])]
    if name in _FIELDS:
        text, field = _FIELDS[name]
        return [b.compute("BFE", b.compute("S2R", text=text), number(field), mods=".U32")]
    if name in _CLOCKS:
        return [b.compute("CS2R", text=_CLOCKS[name])]
    if name in _LONG_CLOCKS:
        return _long_clock(b, *_LONG_CLOCKS[name])
    if name == "nwarpid":
        return [number(_WARPS_OF_SM)]
    if name == "gridid":
        return [constant(0, DriverWord.GRID_ID), constant(0, DriverWord.GRID_ID + 4)]
    if name == "dynamic_smem_size":
        return [constant(0, DriverWord.DYNAMIC_SHARED)]
    if name.startswith("envreg"):
        return [constant(0, DriverWord.ENVIRONMENT + 4 * int(name.removeprefix("envreg")))]
    raise b.failure(f"%{name} is not translated")


def _long_clock(b: Builder, low_name: str, high_name: str) -> list[Source]:
    """A counter of two words. One that has just carried shows a lower word without its top bit: only if that is set the
    upper word, read before, may be old, and is read again.
    """
    high = b.temporary()
    b.op("CS2R", [high], text=high_name)
    low = b.compute("CS2R", text=low_name)
    small = b.temporary(True)
    b.compare(small, ".LT.AND", low, RZ)
    again = b.op("CS2R", [high], text=high_name)
    again.guard = Source(small, inverted=True)
    return [low, Source(high)]


@handles("vote")
def _vote(b: Builder, i: Instruction) -> None:
    p = b.predicate(i.operands[1])
    if i.operation == "ballot":
        b.op("VOTE", [b.write(i.operands[0])[0], None], p, mods=".ANY")
    else:
        mode = {"all": ".ALL", "any": ".ANY", "uni": ".EQ"}[i.operation]
        b.op("VOTE", [None, b.write(i.operands[0])[0]], p, mods=mode)


@handles("activemask")
def _active(b: Builder, i: Instruction) -> None:
    b.op("VOTE", [b.write(i.operands[0])[0], None], PT, mods=".ANY")


@handles("shfl")
def _shuffle(b: Builder, i: Instruction) -> None:
    result, p = b.write(i.operands[0])[0], b.write(i.operands[1])[0]
    x, by, limits = (b.word(operand) for operand in i.operands[2:5])
    if isinstance(by.what, int):
        by = number(by.what & 0x1F)
    if isinstance(limits.what, int):
        limits = number(limits.what & 0x1F1F)
    b.op("SHFL", [p, result], x, by, limits, mods=f".{i.operation.upper()}")


# Barriers

@handles("bar")
def _barrier(b: Builder, i: Instruction) -> None:
    if i.operation == "warp":
        return
    if i.operation == "red":
        _barrier_reduction(b, i)
        return
    where, *threads = i.operands
    _barrier_at(b, "SYNC" if i.operation == "sync" else "ARV", where, threads)
    b.op("MEMBAR", [], mods=".CTA")


def _barrier_at(b: Builder, mode: str, where: object, threads: list) -> None:
    count = threads[0] if threads else None
    if isinstance(where, Immediate) and (count is None or isinstance(count, Immediate)):
        _note_barrier(b, where.value + 1)
        text = f"{where.value:#x}" + (f", {count.value:#x}" if count is not None else "")
        b.op("BAR", [], mods=f".{mode}", text=text)
        return
    _note_barrier(b, where.value + 1 if isinstance(where, Immediate) else 16)
    sources = [b.word(where)]  # type: ignore[arg-type]
    if isinstance(where, Immediate):
        sources = [b.compute("MOV", sources[0])]
    sources.append(b.word(count) if count is not None else RZ)
    b.op("BAR.REG", [], *sources, mods=f".{mode}", text="" if count is not None else "all")


def _note_barrier(b: Builder, count: int) -> None:
    b.function.barriers = max(b.function.barriers, count)


def _barrier_reduction(b: Builder, i: Instruction) -> None:
    to, where, count, p = i.operands
    if not isinstance(where, Immediate) or not isinstance(count, Immediate | Sink):
        raise b.failure("bar.red with a barrier or a number of threads in a register is not translated")
    _note_barrier(b, where.value + 1)
    text = f"{where.value:#x}" + (f", {count.value:#x}" if isinstance(count, Immediate) else "")
    b.op("BAR.RED", [], b.predicate(p), mods=f".{i.reduction.upper()}", text=text)
    b.op("MEMBAR", [], mods=".CTA")
    if i.reduction == "popc":
        b.op("B2R", [b.write(to)[0], None], mods=".RESULT")
    else:
        b.op("B2R", [None, b.write(to)[0]], mods=".RESULT")


_SCOPES = {Scope.CTA: ".CTA", Scope.GL: ".GL.IVALLD", Scope.SYS: ".SYS.IVALLD"}


@handles("membar")
def _order(b: Builder, i: Instruction) -> None:
    b.op("MEMBAR", [], mods=_SCOPES[i.scope] if i.scope is not None else ".CTA")


@handles("pmevent")
def _event(b: Builder, i: Instruction) -> None:
    event = i.operands[0]
    assert isinstance(event, Immediate)
    b.op("NOP", [], mods=".TRIG", text=f"{1 << event.value:#x}")


@handles("trap", "brkpt")
def _trap(b: Builder, i: Instruction) -> None:
    behind = b.guarded_block()
    b.op("BPT", [], mods=".TRAP", text="0x1")
    if i.opcode == "trap":
        b.end("exit")
        b.begin(b.new_block("after") if behind is None else behind)
    else:
        b.leave_guarded_block(behind)


