"""The launch descriptor: NVIDIA's compute QMD, version 1.7, as far as the work distributor uses it.

256 bytes; bit n is bit n % 32 of word n // 32. Names and positions are those of NVIDIA's class
header clb0c0qmd.h. What is not listed here is written as 0 and ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["QMD", "QMD_BYTES", "QMD_MAJOR_VERSION", "QMD_VERSION", "QmdField", "descriptor"]

QMD_BYTES = 256
"""Size and alignment of a descriptor."""
QMD_MAJOR_VERSION = 1
QMD_VERSION = 7
"""The one version that this machine reads."""


@dataclass(frozen=True)
class QmdField:
    """Bits ``high`` down to ``low``. It is the first of ``count`` equal fields, ``step`` bits
    apart."""

    high: int
    low: int
    meaning: str
    count: int = 1
    step: int = 0

    @property
    def width(self) -> int:
        """Bits in the field."""
        return self.high - self.low + 1

    def lowest(self, index: int = 0) -> int:
        """The lowest bit of field number ``index``. IndexError when there are not so many."""
        if not 0 <= index < self.count:
            raise IndexError(f"field {index} of {self.count}")
        return self.low + index * self.step

    def get(self, descriptor: int, index: int = 0) -> int:
        """The field's value in a descriptor, which is a number of 2048 bits."""
        return descriptor >> self.lowest(index) & (1 << self.width) - 1

    def put(self, descriptor: int, value: int, index: int = 0) -> int:
        """The descriptor with the field set. ValueError when the value does not fit."""
        if value >> self.width:
            raise ValueError(f"{value:#x} does not fit into {self.width} bits")
        lowest = self.lowest(index)
        return descriptor & ~((1 << self.width) - 1 << lowest) | value << lowest


_BANKS = 8

QMD: Mapping[str, QmdField] = MappingProxyType({
    "SEMAPHORE_RELEASE_ENABLE0": QmdField(202, 202, "whether the grid's end is written to memory"),
    "CWD_REFERENCE_COUNT_ID": QmdField(357, 352, "the reference counter of the grid's CTAs"),
    "CWD_REFERENCE_COUNT_DELTA_MINUS_ONE": QmdField(
        365, 358, "what a CTA adds to it and takes from it, less one"
    ),
    "CWD_REFERENCE_COUNT_INCR_ENABLE": QmdField(
        367, 367, "whether a CTA that starts adds to the counter"
    ),
    "SEQUENTIALLY_RUN_CTAS": QmdField(370, 370, "one CTA at a time"),
    "CWD_REFERENCE_COUNT_DECR_ENABLE": QmdField(
        371, 371, "whether a CTA that has ended takes from the counter"
    ),
    "API_VISIBLE_CALL_LIMIT": QmdField(378, 378, "0: calls are limited; 1: they are not"),
    "PROGRAM_OFFSET": QmdField(287, 256, "the kernel's pc"),
    "CTA_RASTER_WIDTH": QmdField(415, 384, "CTAs in x"),
    "CTA_RASTER_HEIGHT": QmdField(431, 416, "CTAs in y"),
    "CTA_RASTER_DEPTH": QmdField(447, 432, "CTAs in z"),
    "SHARED_MEMORY_SIZE": QmdField(561, 544, "bytes of a CTA"),
    "QMD_VERSION": QmdField(579, 576, "7"),
    "QMD_MAJOR_VERSION": QmdField(583, 580, "1"),
    "CTA_THREAD_DIMENSION0": QmdField(607, 592, "threads of a CTA in x"),
    "CTA_THREAD_DIMENSION1": QmdField(623, 608, "threads of a CTA in y"),
    "CTA_THREAD_DIMENSION2": QmdField(639, 624, "threads of a CTA in z"),
    "CONSTANT_BUFFER_VALID": QmdField(
        640, 640, "whether there is this constant bank", _BANKS, 1
    ),
    "SM_DISABLE_MASK_LOWER": QmdField(
        703, 672, "multiprocessors that must not run the grid; this one is bit 0"
    ),
    "RELEASE0_ADDRESS_LOWER": QmdField(767, 736, "where the grid's end is written"),
    "RELEASE0_ADDRESS_UPPER": QmdField(775, 768, "the rest of that address"),
    "RELEASE0_STRUCTURE_SIZE": QmdField(799, 799, "0: four words are written; 1: one"),
    "RELEASE0_PAYLOAD": QmdField(831, 800, "the word that is written there"),
    "CONSTANT_BUFFER_ADDR_LOWER": QmdField(959, 928, "address of the bank", _BANKS, 64),
    "CONSTANT_BUFFER_ADDR_UPPER": QmdField(967, 960, "the rest of that address", _BANKS, 64),
    "CONSTANT_BUFFER_SIZE": QmdField(991, 975, "bytes of the bank", _BANKS, 64),
    "SHADER_LOCAL_MEMORY_LOW_SIZE": QmdField(1463, 1440, "bytes of a thread's local memory"),
    "BARRIER_COUNT": QmdField(1471, 1467, "barriers of a CTA"),
    "SHADER_LOCAL_MEMORY_HIGH_SIZE": QmdField(
        1495, 1472, "more bytes of a thread's local memory"
    ),
    "REGISTER_COUNT": QmdField(1503, 1496, "registers of a thread"),
    "SHADER_LOCAL_MEMORY_CRS_SIZE": QmdField(1527, 1504, "bytes of a warp's call/return stack"),
})
"""The fields by name."""


def descriptor(values: Mapping[str, int | Sequence[int]]) -> bytes:
    """A descriptor of this version with these fields, all others 0; where there are several equal
    ones, a sequence.

    KeyError for a field that is not in the table, ValueError for a value that does not fit.
    """
    number = 0
    versions = {"QMD_VERSION": QMD_VERSION, "QMD_MAJOR_VERSION": QMD_MAJOR_VERSION}
    for name, value in {**versions, **values}.items():
        for index, one in enumerate((value,) if isinstance(value, int) else value):
            number = QMD[name].put(number, one, index)
    return number.to_bytes(QMD_BYTES, "little")
