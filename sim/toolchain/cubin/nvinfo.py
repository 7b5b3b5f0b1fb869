"""Records of ``.nv.info`` sections: what a loader needs to know of functions beside their code.

A record is a format byte, an attribute byte, and two bytes that are either its value or the size of the
payload behind it. Attribute numbers are NVIDIA's.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "BRANCH",
    "CALL",
    "LARGEST_ATTRIBUTE",
    "LARGEST_PARAMETER",
    "LARGEST_WORD",
    "UNKNOWN_SIZE",
    "WORD_BYTES",
    "Attribute",
    "BranchTargets",
    "KernelParameter",
    "Record",
    "RecordFormat",
    "decode",
    "encode",
]

UNKNOWN_SIZE = 0xFFFF_FFFF
"""A stack size that NVIDIA's assembler could not tell, because of recursion."""
BRANCH, CALL = 0, 1
"""Kinds of branches in INDIRECT_BRANCH_TARGETS."""
_PARAMETER_BANK = 0x1F << 12
_PARAMETER_SIZE_AT = 18
LARGEST_PARAMETER = (1 << 32 - _PARAMETER_SIZE_AT) - 1
"""Bytes that a parameter has at most."""
LARGEST_ATTRIBUTE = 0xFF
_HEADER = struct.Struct("<BBH")
_WORD = struct.Struct("<I")
LARGEST_WORD = 0xFFFF_FFFF
WORD_BYTES = _WORD.size
"""Most payloads are words of this size."""


class RecordFormat(IntEnum):
    """How a record carries its value."""

    NONE = 1
    BYTE = 2
    HALF = 3
    SIZED = 4


class Attribute(IntEnum):
    """What a record is about.

    Of single functions, in the file's common section: {symbol, number} pairs. The rest are in the sections of
    kernels; offsets are those of instructions in the kernel's code.
    """

    CTAIDZ_USED = 0x04
    MAX_THREADS = 0x05
    """Three dimensions of a block that has at most their product of threads: .maxntid."""
    PARAM_CBANK = 0x0A
    """{symbol of bank 0, place and size of the parameters as two halves}"""
    REQNTID = 0x10
    """The three dimensions of every block: .reqntid."""
    FRAME_SIZE = 0x11
    """Bytes of stack of the function alone, a thread."""
    MIN_STACK_SIZE = 0x12
    """Bytes of stack of the function with all that it calls, a thread."""
    KPARAM_INFO = 0x17
    """One parameter: {0, ordinal and offset as two halves, size << 18 | its bank and alignment}"""
    CBANK_PARAM_SIZE = 0x19
    MAXREG_COUNT = 0x1B
    EXIT_INSTR_OFFSETS = 0x1C
    S2RCTAID_INSTR_OFFSETS = 0x1D
    CRS_STACK_SIZE = 0x1E
    """Bytes of call/return stack that the code may fill, a warp."""
    EXPLICIT_CACHING = 0x21
    MAX_STACK_SIZE = 0x23
    COOP_GROUP_INSTR_OFFSETS = 0x28
    SW1850030_WAR = 0x2A
    REGCOUNT = 0x2F
    SW2393858_WAR = 0x30
    INT_WARP_WIDE_INSTR_OFFSETS = 0x31
    INDIRECT_BRANCH_TARGETS = 0x34
    """{offset, 0 branch or 1 call, count, targets} for every branch whose targets are not in the instruction"""
    CUDA_API_VERSION = 0x37


_WORDS = {
    Attribute.MAX_THREADS: 3,
    Attribute.PARAM_CBANK: 2,
    Attribute.REQNTID: 3,
    Attribute.FRAME_SIZE: 2,
    Attribute.MIN_STACK_SIZE: 2,
    Attribute.KPARAM_INFO: 3,
    Attribute.CRS_STACK_SIZE: 1,
    Attribute.MAX_STACK_SIZE: 2,
    Attribute.REGCOUNT: 2,
    Attribute.CUDA_API_VERSION: 1,
}
"""Words in the payload of records that are always alike."""


@dataclass(frozen=True)
class Record:
    """One record. ``value`` is the two bytes of the header, ``payload`` what follows in the SIZED format."""

    attribute: int
    format: RecordFormat
    value: int = 0
    payload: bytes = b""

    @classmethod
    def sized(cls, attribute: int, words: Iterable[int]) -> "Record":
        """A record whose payload are these 32-bit words."""
        return cls(
            attribute, RecordFormat.SIZED, payload=b"".join(_WORD.pack(word) for word in words)
        )

    @property
    def words(self) -> tuple[int, ...]:
        """The payload as 32-bit words; ValueError when it isn't made of whole ones."""
        if len(self.payload) % _WORD.size:
            raise ValueError(
                f"record {self.attribute:#x} has a payload of {len(self.payload)} bytes, "
                f"which are no whole words"
            )
        return tuple(word for (word,) in _WORD.iter_unpack(self.payload))


@dataclass(frozen=True)
class KernelParameter:
    """What a record KPARAM_INFO says: which parameter, its place behind the parameter base, its size."""

    ordinal: int
    position: int
    size: int

    @classmethod
    def of(cls, record: Record) -> "KernelParameter":
        """The parameter of a record."""
        _, place, packed = record.words
        return cls(place & 0xFFFF, place >> 16, packed >> _PARAMETER_SIZE_AT)

    def record(self) -> Record:
        """The record of a parameter."""
        return Record.sized(
            Attribute.KPARAM_INFO,
            (
                0,
                self.ordinal | self.position << 16,
                _PARAMETER_BANK | self.size << _PARAMETER_SIZE_AT,
            ),
        )


@dataclass(frozen=True)
class BranchTargets:
    """Where the instruction at ``offset`` may go: ``target_offsets`` into its code, as a BRANCH or a CALL."""

    offset: int
    kind: int
    target_offsets: tuple[int, ...]

    @classmethod
    def of(cls, record: Record) -> list["BranchTargets"]:
        """All entries of a record INDIRECT_BRANCH_TARGETS; what is cut off at its end is none."""
        found = []
        words = list(record.words)
        while len(words) > 2:
            offset, kind, count, *rest = words
            found.append(cls(offset, kind, tuple(rest[:count])))
            words = rest[count:]
        return found

    @staticmethod
    def record(entries: Iterable["BranchTargets"]) -> Record:
        """The record of these entries."""
        return Record.sized(
            Attribute.INDIRECT_BRANCH_TARGETS,
            [
                word
                for entry in entries
                for word in (
                    entry.offset,
                    entry.kind,
                    len(entry.target_offsets),
                    *entry.target_offsets,
                )
            ],
        )


def decode(content: bytes) -> list[Record]:
    """The records of a section; ValueError when one is cut off, has no known format or not the size it should."""
    records = []
    position = 0
    while position < len(content):
        if position + _HEADER.size > len(content):
            raise ValueError(f"the record at {position:#x} is cut off")
        form, attribute, value = _HEADER.unpack_from(content, position)
        if form not in tuple(RecordFormat):
            raise ValueError(f"the record at {position:#x} has format {form}, which is unknown")
        position += _HEADER.size
        payload = b""
        if form == RecordFormat.SIZED:
            payload = content[position : position + value]
            if len(payload) != value:
                raise ValueError(f"the record at {position - _HEADER.size:#x} is cut off")
            position += value
            value = 0
        expected = _WORDS.get(attribute)  # type: ignore[call-overload]
        if expected is not None and len(payload) != expected * _WORD.size:
            raise ValueError(
                f"a record {Attribute(attribute).name} has {len(payload)} bytes, "
                f"not {expected * _WORD.size}"
            )
        if attribute in tuple(Attribute) and len(payload) % _WORD.size:
            raise ValueError(
                f"a record {Attribute(attribute).name} has {len(payload)} bytes, which are no whole words"
            )
        records.append(Record(attribute, RecordFormat(form), value, payload))
    return records


def encode(records: Iterable[Record]) -> bytes:
    """The section of these records."""
    return b"".join(
        _HEADER.pack(
            record.format,
            record.attribute,
            len(record.payload) if record.format is RecordFormat.SIZED else record.value,
        )
        + record.payload
        for record in records
    )
