"""The runtime: functions that compiled code calls but does not contain.

``runtime.ptx`` contains vprintf, malloc, free and __assertfail. A PTX program that declares one of
them gets it when it is read (:mod:`sim.toolchain.ptx.front_end`), a binary when it is launched
(:mod:`.supply`). Their buffers are allocated at launch; the first words of two global variables
describe them:

=======================  ===========================================================================
variable                 double words
=======================  ===========================================================================
``__warpstack_output``   address, size in bytes, bytes requested, number of records that did not fit
``__warpstack_heap``     address, size in bytes, bytes in use, 0, then for each power of two the
                         first free block
=======================  ===========================================================================

The output consists of consecutive records, each a multiple of 8 bytes:

======  ===========================================  ===============================================
offset  printed by a kernel                          failed assertion
======  ===========================================  ===============================================
0       size of the record in bytes (32 bits)        size of the record in bytes (32 bits)
4       PRINTED (32 bits)                            FAILED (32 bits)
8       address of the format; 0: it follows         line, index of the CTA (x, y, z), of the thread
                                                     (x, y, z), 0:
                                                     32 bits each
16      the format, if it follows; the arguments, a
        double word each
40                                                   file, function, text
======  ===========================================  ===============================================

Texts are zero-terminated and padded to a multiple of 8 bytes. String arguments of a format are
copied into the record: of the program's memory only formats are read later.

The other texts are the library of the compiler (:mod:`sim.toolchain.compiler.library`): divisions,
reciprocals and roots, for which the machine has no instructions. They need no support at launch.
Those that end in ``.ptx.in`` are templates.
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
"""The names of the runtime's functions."""
OUTPUT, HEAP = "__warpstack_output", "__warpstack_heap"
"""The names of the runtime's variables."""
PRINTED, FAILED = 1, 2
"""The kinds of records."""


def runtime_text() -> str:
    """Returns the PTX text of the runtime."""
    return _text("runtime.ptx")


def library_text(name: str) -> str:
    """Returns a text of the compiler's library of functions that replace instructions."""
    return _text(name)


def _text(name: str) -> str:
    return files("sim.toolchain.runtime").joinpath(name).read_text(encoding="utf-8")
