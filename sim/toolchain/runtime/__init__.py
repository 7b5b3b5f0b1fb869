"""The runtime: functions that compiled code calls and does not bring along.

``runtime.ptx`` has them: vprintf, malloc, free, __assertfail. A program in PTX that declares one of them gets it when
it is read (:mod:`sim.toolchain.ptx.front_end`), a binary when it is launched (:mod:`.supply`). What they need lies
where a launch decides, as the first words of two global variables say:

=======================  ==========================================================================================
variable                 double words
=======================  ==========================================================================================
``__warpstack_output``   address, bytes, bytes that were asked for, records that found no room
``__warpstack_heap``     address, bytes, bytes in use, 0, then for each power of two the first free block of that size
=======================  ==========================================================================================

The output holds records one behind the other, each a multiple of 8 bytes:

======  ===========================================  ============================================================
offset  what a kernel prints                         an assertion that failed
======  ===========================================  ============================================================
0       bytes of the record (32 bits)                bytes of the record (32 bits)
4       PRINTED (32 bits)                            FAILED (32 bits)
8       address of the format; 0: it follows         line, place of the CTA (x, y, z), of the thread (x, y, z), 0:
                                                     32 bits each
16      the format, if it follows; the arguments, a
        double word each
40                                                   file, function, text
======  ===========================================  ============================================================

Texts end with a zero and are filled up to a multiple of 8 bytes. They are copied where the arguments of a format are
strings: nothing but formats themselves is read later.

The other texts are the library of the compiler (:mod:`sim.toolchain.compiler.library`): divisions, reciprocals and
roots, which the machine has no instructions for. They need nothing of a launch. Those that end in ``.ptx.in`` are
templates.
"""

from importlib.resources import files

__all__ = [
    "FAILED",
    "FUNCTIONS",
    "HEAP",
    "OUTPUT",
    "PRINTED",
    "library_text",
    "runtime_text",
]

FUNCTIONS = frozenset({"vprintf", "malloc", "free", "__assertfail"})
"""What there is."""
OUTPUT, HEAP = "__warpstack_output", "__warpstack_heap"
"""The variables."""
PRINTED, FAILED = 1, 2
"""Kinds of records."""


def runtime_text() -> str:
    """The functions in PTX."""
    return _text("runtime.ptx")


def library_text(name: str) -> str:
    """A text of the functions that the compiler has in place of instructions; programs do not name them."""
    return _text(name)


def _text(name: str) -> str:
    return files("sim.toolchain.runtime").joinpath(name).read_text(encoding="utf-8")
