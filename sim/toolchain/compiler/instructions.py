"""The operations that have an instruction: how each is printed, what it can encode, which registers are neighbours.

A format lists the operands as they are printed:

========  ===========================================================================================
``d``     a register that is written; ``D`` all results, neighbours, of which the first is printed
``p``     a predicate that is written
``s``     a register, number or constant that is read
``q``     a predicate that is read
``S``     all further sources, neighbours; ``w`` two, a number in double precision
``a``     an address of 64 bits in two neighbours, ``l`` one of 32 bits, ``k`` one in constant bank ``text``
``t``     the text
========  ===========================================================================================
"""

from dataclasses import dataclass
from functools import cached_property

from .ir import WORD, Constant, Global, Op, Source, Value

__all__ = ["ARRIVALS", "LONG_FORMS", "LOWEST", "MASKS", "TOGETHER", "Shape", "fits", "groups", "has_offset",
           "is_needless", "is_pure", "needs_slot", "offset_fits", "predicate_sources", "shape", "slot_takes"]


@dataclass(frozen=True)
class Shape:
    """How an instruction is printed and encoded.

    ``flexible`` are the sources that may be a constant, ``numbers`` those that may be a number, of ``bits`` bits,
    signed unless ``unsigned``. One source at most is either. ``commutes``: the first two may be exchanged. ``pure``:
    nothing but the results depends on it. ``real``: numbers are in single precision, those whose lowest bits are zero.
    ``exact``: what is negated has more than 32 bits, so that it is not another number of 32 bits.
    """

    format: str
    flexible: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    bits: int = 20
    unsigned: bool = False
    commutes: bool = False
    pure: bool = True
    real: bool = False
    exact: bool = False

    @cached_property
    def letters(self) -> str:
        """The letters of the format."""
        return self.format.replace(", ", "")


def _binary(form: str, commutes: bool = False) -> Shape:
    """An instruction whose second source may be a constant or a number."""
    return Shape(form, (1,), (1,), commutes=commutes)


def _real(form: str, commutes: bool = False) -> Shape:
    """An instruction in single precision whose second source may be a constant or a number."""
    return Shape(form, (1,), (1,), commutes=commutes, real=True)


_SHAPES: dict[str, Shape] = {
    "MOV": Shape("d, s", (0,), (0,), 32),
    "IADD": _binary("d, s, s", commutes=True),
    "ISCADD": _binary("d, s, s, t"),
    "IADD3": Shape("d, s, s, s", (1,), (1,), 19, True),
    "LOP": _binary("d, s, s", commutes=True),
    "LOP.TEST": _binary("p, d, s, s", commutes=True),
    "LOP3.LUT": _binary("d, s, s, s, t"),
    "SHL": _binary("d, s, s"),
    "SHR": _binary("d, s, s"),
    "SHF.L": Shape("d, s, s, s", (), (1,), 6, True),
    "SHF.R": Shape("d, s, s, s", (), (1,), 6, True),
    "SEL": _binary("d, s, s, q"),
    "IMNMX": _binary("d, s, s, q", commutes=True),
    "BFE": _binary("d, s, s"),
    "BFI": Shape("d, s, s, s", (1, 2), (1,)),
    "PRMT": Shape("d, s, s, s", (1, 2), (1,)),
    "POPC": Shape("d, s", (0,), (0,)),
    "FLO": Shape("d, s", (0,), (0,)),
    "I2I": Shape("d, s", (0,), (0,)),
    "I2F": Shape("d, s", (0,), (0,)),
    "I2F.64": Shape("d, S"),
    "F2I": Shape("d, s", (0,)),
    "F2I.64": Shape("D, s", (0,)),
    "MUFU": Shape("d, s", real=True),
    "FADD": _real("d, s, s", commutes=True),
    "FMUL": _real("d, s, s", commutes=True),
    "FFMA": Shape("d, s, s, s", (1, 2), (1,), commutes=True, real=True),
    "FMNMX": _real("d, s, s, q", commutes=True),
    "FSETP": _real("p, p, s, s, q"),
    "FSET": _real("d, s, s, q"),
    "FCMP": Shape("d, s, s, s", (1, 2), (1,), real=True),
    "FCHK": _real("p, s, s"),
    "RRO": Shape("d, s", (0,), (0,), real=True),
    "F2F": Shape("d, s", (0,), (0,), real=True),
    "F2F.HALF": Shape("d, s"),
    "DADD": Shape("D, w, w"),
    "DMUL": Shape("D, w, w"),
    "DFMA": Shape("D, w, w, w"),
    "DMNMX": Shape("D, w, w, q"),
    "DSETP": Shape("p, p, w, w, q"),
    "DSET": Shape("d, w, w, q"),
    "F2F.NARROW": Shape("d, w"),
    "F2F.WIDE": Shape("D, s"),
    "F2F.DOUBLE": Shape("D, w"),
    "F2I.DOUBLE": Shape("d, w"),
    "F2I.DOUBLE.64": Shape("D, w"),
    "I2F.DOUBLE": Shape("D, s"),
    "I2F.DOUBLE.64": Shape("D, S"),
    "ICMP": Shape("d, s, s, s", (1, 2), (1,)),
    "ISET": _binary("d, s, s, q"),
    "ISETP": _binary("p, p, s, s, q"),
    "PSETP": Shape("p, p, q, q, q"),
    "PSET": Shape("d, q, q, q"),
    "CSETP": Shape("p, p, t, q"),
    "XMAD": Shape("d, s, s, s", (1, 2), (1,), 16, True),
    "LEA": _binary("d, s, s"),
    **dict.fromkeys(("VADD", "VMAD", "VMNMX", "VABSDIFF", "VABSDIFF4", "VSHL", "VSHR", "VSET"),
                    Shape("d, s, s, s", exact=True)),
    "LEA.HI": Shape("p, d, s, s, s"),
    "LEA.HI.SHIFT": Shape("d, s, s, s, t", (1,)),
    "VOTE": Shape("d, p, q", pure=False),
    "S2R": Shape("d, t"),
    "CS2R": Shape("d, t", pure=False),
    "B2R": Shape("d, p", pure=False),
    "SHFL": Shape("p, d, s, s, s", (), (1, 2), 13, True, pure=False),
    "LDG": Shape("D, a", pure=False),
    "LD": Shape("D, a, q", pure=False),
    "LDS": Shape("D, l", pure=False),
    "LDL": Shape("D, l", pure=False),
    "LDC": Shape("D, k", pure=False),
    "STG": Shape("a, S", pure=False),
    "ST": Shape("a, q, S", pure=False),
    "STS": Shape("l, S", pure=False),
    "STL": Shape("l, S", pure=False),
    "ATOM": Shape("D, a, S", pure=False),
    "ATOM.CAS": Shape("D, a, S", pure=False),
    "ATOMS": Shape("D, l, S", pure=False),
    "ATOMS.CAS": Shape("D, l, S", pure=False),
    "RED": Shape("a, S", pure=False),
    "CCTL": Shape("a", pure=False),
    "CCTLL": Shape("l", pure=False),
    "BAR": Shape("t", pure=False),
    "BAR.REG": Shape("s, t", pure=False),
    "BAR.COUNT": Shape("t, s", (), (0,), 12, True, pure=False),
    "BAR.PACKED": Shape("s", pure=False),
    "BAR.RED": Shape("t, q", pure=False),
    "BAR.RED.REG": Shape("s, t, q", pure=False),
    "BAR.RED.COUNT": Shape("t, s, q", (), (0,), 12, True, pure=False),
    "BAR.RED.PACKED": Shape("s, q", pure=False),
    "MEMBAR": Shape("", pure=False),
    "NOP": Shape("t", pure=False),
    "BPT": Shape("t", pure=False),
    "PRET": Shape("t", pure=False),
    "CAL": Shape("t", pure=False),
    "ICAL": Shape("", pure=False),
}
_OFFSETS = {"LDG": 24, "STG": 24, "LDL": 24, "STL": 24, "LDS": 24, "STS": 24, "LD": 24, "ST": 24, "LDC": 16,
            "ATOM": 20, "ATOM.CAS": 20, "ATOMS": 22, "ATOMS.CAS": 22, "RED": 20, "CCTL": 24, "CCTLL": 24}
"""How many bits the number in an address has, its sign among them."""
_WORD_OFFSETS = frozenset({"ATOMS", "ATOMS.CAS", "CCTL", "CCTLL"})
"""Instructions in whose addresses the number is a multiple of a word."""
_WORD_BYTES = 4
LONG_FORMS = {"FADD": "FADD32I", "FMUL": "FMUL32I", "IADD": "IADD32I", "LOP": "LOP32I", "MOV": "MOV32I"}
"""Instructions for numbers of 32 bits."""
MASKS: dict[tuple[str, int], int] = {("SHFL", 1): 0x1F, ("SHFL", 2): 0x1F1F}
"""Sources of which the instruction reads some bits alone, by its name and their index, and these bits."""
ARRIVALS = frozenset(name for name in _SHAPES if name.split(".")[0] == "BAR")
"""All forms of BAR: barrier and count in the text, the barrier in a register, the count in one, or both in the same."""
TOGETHER = ARRIVALS | {"VOTE", "SHFL", "B2R", "CAL", "ICAL", "BPT", "MEMBAR", "PRET"}
"""What threads do together, or cannot be guarded."""
LOWEST = 0xFFF
"""Bits of a number in single precision that short numbers lack."""
_SYNTHETIC = Shape("")
_SYNTHETIC_FLEXIBLE = frozenset({"ADD64", "MAD", "MULHI", "MULWIDE", "DIV", "REM"})


def shape(op: Op) -> Shape:
    """The shape of an operation."""
    return _SHAPES.get(op.name, _SYNTHETIC)


def is_pure(op: Op) -> bool:
    """Whether an operation does nothing but compute its results, the same each time."""
    return shape(op).pure and not op.sets_carry


def is_needless(op: Op) -> bool:
    """Whether an operation may be left out when nobody wants its results."""
    return is_pure(op) or (op.name in _LOADS and ".CV" not in op.mods)


def has_offset(name: str) -> bool:
    """Whether an operation has an address with a number in it."""
    return name in _OFFSETS


def offset_fits(name: str, offset: int) -> bool:
    """Whether the operation's address can have this number."""
    limit = 1 << _OFFSETS[name] - 1
    return -limit <= offset < limit and not (name in _WORD_OFFSETS and offset % _WORD_BYTES)


def fits(op: Op, index: int, source: Source) -> bool:
    """Whether an operation can have this constant or number as a source without a register for it."""
    if op.name in _SYNTHETIC_FLEXIBLE:
        return True
    if not slot_takes(op, index, source):
        return False
    if index in predicate_sources(op):
        return True
    taken = [at for at, other in enumerate(op.sources) if at != index and needs_slot(op, at, other)]
    return not taken or op.name == "SHFL"


def needs_slot(op: Op, index: int, source: Source) -> bool:
    """Whether a source is a constant or number that only one source can be."""
    if isinstance(source.what, Value) or (isinstance(source.what, int) and source.number == 0):
        return False
    return index not in predicate_sources(op)


def predicate_sources(op: Op) -> frozenset[int]:
    """The sources that are predicates."""
    found, read = set(), 0
    for letter in shape(op).format.replace(", ", ""):
        if letter == "q":
            found.add(read)
        read += _SOURCES_OF_LETTER.get(letter, 0)
    return frozenset(found)


def slot_takes(op: Op, index: int, source: Source) -> bool:
    """Whether a constant or number can stand there, the other sources aside."""
    form = shape(op)
    if any(index in group for group in groups(op)[1]):
        return False
    if index in predicate_sources(op):
        return isinstance(source.what, int)
    if isinstance(source.what, Constant):
        return (index in form.flexible and _constant_part_fits(op, index)) and op.name != "LEA"
    if isinstance(source.what, Global):
        return op.name == "MOV"
    if source.what == 0 and not source.inverted:
        return True
    if index not in form.numbers:
        return False
    if form.real:
        bits = source.number
        return (bits is not None and not bits & LOWEST) or (op.name in LONG_FORMS and _long_form_fits(op))
    value = source.number
    if value is None:
        return False
    if form.bits == 32 or (op.name in LONG_FORMS and _long_form_fits(op)):
        return True
    if (op.name, index) in MASKS:
        return not value & ~MASKS[op.name, index]
    if form.unsigned:
        return value < 1 << form.bits
    return value < 1 << form.bits - 1 or value > WORD - (1 << form.bits - 1)


def _constant_part_fits(op: Op, index: int) -> bool:
    """XMAD's constant forms lack some modes."""
    if op.name != "XMAD":
        return True
    return ".CBCC" not in op.mods and (index == 1 or not any(mode in op.mods for mode in (".PSL", ".MRG")))


def _long_form_fits(op: Op) -> bool:
    """Whether the instruction with a number of 32 bits does what the operation does."""
    if op.name == "IADD":
        return ".SAT" not in op.mods
    if op.name in ("FADD", "FMUL"):
        return not any(mode in op.mods for mode in (".RM", ".RP", ".RZ", *([".SAT"] if op.name == "FADD" else [])))
    return op.name == "MOV" or ".PASS_B" not in op.mods


_LOADS = frozenset({"LDG", "LD", "LDS", "LDL", "LDC", "VOTE", "CS2R"})
_SOURCES_OF_LETTER = {"s": 1, "q": 1, "a": 2, "w": 2, "l": 1, "k": 1}


def groups(op: Op) -> tuple[list[list[int]], list[list[int]]]:
    """The results, and the sources, that must be neighbours in registers: lists of their indices."""
    results: list[list[int]] = []
    sources: list[list[int]] = []
    written = read = 0
    for letter in shape(op).format.replace(", ", ""):
        if letter in "dp":
            written += 1
        elif letter == "D":
            results.append(list(range(written, len(op.results))))
        elif letter in "sq":
            read += 1
        elif letter in "alkw":
            sources.append(list(range(read, read + _SOURCES_OF_LETTER[letter])))
            read += _SOURCES_OF_LETTER[letter]
        elif letter == "S":
            sources.append(list(range(read, len(op.sources))))
    return [g for g in results if len(g) > 1], [g for g in sources if len(g) > 1]
