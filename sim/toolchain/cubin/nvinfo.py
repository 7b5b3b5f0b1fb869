"""Records of ``.nv.info`` sections: properties of functions that a loader needs.

A record is a format byte, an attribute byte, and two bytes that are the value or the size of the
payload after them. Attribute numbers are NVIDIA's.
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
"""The stack size that NVIDIA's assembler writes if recursion makes it unknown."""
BRANCH, CALL = 0, 1
"""Kinds of branches in INDIRECT_BRANCH_TARGETS."""
_PARAMETER_BANK = 0x1F << 12
_PARAMETER_SIZE_AT = 18
LARGEST_PARAMETER = (1 << 32 - _PARAMETER_SIZE_AT) - 1
"""The largest size of a parameter in bytes."""
LARGEST_ATTRIBUTE = 0xFF
_HEADER = struct.Struct("<BBH")
_WORD = struct.Struct("<I")
LARGEST_WORD = 0xFFFF_FFFF
WORD_BYTES = _WORD.size
"""The size of the words in most payloads, in bytes."""


class RecordFormat(IntEnum):
    """The location of a record's value."""

    NONE = 1
    BYTE = 2
    HALF = 3
    SIZED = 4


class Attribute(IntEnum):
    """The attribute of a record.

    Attributes of single functions in the file's common section are pairs {symbol, number}. All
    others are in the sections of kernels; their offsets are those of instructions in the kernel's
    code.
    """

    CTAIDZ_USED = 0x04
    MAX_THREADS = 0x05
    """The three block dimensions of .maxntid: their product is the largest number of threads."""
    PARAM_CBANK = 0x0A
    """{symbol of bank 0, offset and size of the parameters as two halves}"""
    REQNTID = 0x10
    """The three dimensions of every block: .reqntid."""
    FRAME_SIZE = 0x11
    """The stack size of the function alone, in bytes of a thread."""
    MIN_STACK_SIZE = 0x12
    """The stack size of the function with all that it calls, in bytes of a thread."""
    KPARAM_INFO = 0x17
    """One parameter: {0, ordinal and offset as two halves, size << 18 | its bank and alignment}"""
    CBANK_PARAM_SIZE = 0x19
    MAXREG_COUNT = 0x1B
    EXIT_INSTR_OFFSETS = 0x1C
    S2RCTAID_INSTR_OFFSETS = 0x1D
    CRS_STACK_SIZE = 0x1E
    """The call/return stack that the code may fill, in bytes of a warp."""
    EXPLICIT_CACHING = 0x21
    MAX_STACK_SIZE = 0x23
    COOP_GROUP_INSTR_OFFSETS = 0x28
    SW1850030_WAR = 0x2A
    REGCOUNT = 0x2F
    SW2393858_WAR = 0x30
    INT_WARP_WIDE_INSTR_OFFSETS = 0x31
    INDIRECT_BRANCH_TARGETS = 0x34
    """{offset, 0 branch or 1 call, count, targets} for every branch that does not contain its
    targets
    """
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
"""The number of words in payloads of fixed size."""


@dataclass(frozen=True)
class Record:
    """One record. ``value`` is the two bytes of the header, ``payload`` the bytes after them in the
    SIZED format.
    """

    attribute: int
    format: RecordFormat
    value: int = 0
    payload: bytes = b""

    @classmethod
    def sized(cls, attribute: int, words: Iterable[int]) -> "Record":
        """Returns a record with these 32-bit words as payload."""
        return cls(
            attribute, RecordFormat.SIZED, payload=b"".join(_WORD.pack(word) for word in words)
        )

    @property
    def words(self) -> tuple[int, ...]:
        """The payload as 32-bit words.

        Raises:
            ValueError: Its size is no multiple of a word.
        """
        if len(self.payload) % _WORD.size:
            raise ValueError(
                f"record {self.attribute:#x} has a payload of {len(self.payload)} bytes, "
                f"which are no whole words"
            )
        return tuple(word for (word,) in _WORD.iter_unpack(self.payload))


@dataclass(frozen=True)
class KernelParameter:
    """A parameter in a KPARAM_INFO record: its ordinal, its offset from the parameter base and its
    size in bytes.
    """

    ordinal: int
    position: int
    size: int

    @classmethod
    def of(cls, record: Record) -> "KernelParameter":
        """Returns the parameter of a record."""
        _, place, packed = record.words
        return cls(place & 0xFFFF, place >> 16, packed >> _PARAMETER_SIZE_AT)

    def record(self) -> Record:
        """Returns the record of a parameter."""
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
    """The targets of the BRANCH or CALL at ``offset``: ``target_offsets`` in its code."""

    offset: int
    kind: int
    target_offsets: tuple[int, ...]

    @classmethod
    def of(cls, record: Record) -> list["BranchTargets"]:
        """Returns all entries of an INDIRECT_BRANCH_TARGETS record, without an incomplete one at
        the end.
        """
        found = []
        words = list(record.words)
        while len(words) > 2:
            offset, kind, count, *rest = words
            found.append(cls(offset, kind, tuple(rest[:count])))
            words = rest[count:]
        return found

    @staticmethod
    def record(entries: Iterable["BranchTargets"]) -> Record:
        """Returns the record of these entries."""
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
    """Returns the records of a section.

    Raises:
        ValueError: A record is incomplete, has an unknown format, or a wrong size.
    """
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
    """Returns the content of a section with these records."""
    return b"".join(
        _HEADER.pack(
            record.format,
            record.attribute,
            len(record.payload) if record.format is RecordFormat.SIZED else record.value,
        )
        + record.payload
        for record in records
    )
