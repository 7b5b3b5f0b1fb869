"""Launches: a kernel's program, its arguments and its memory, as a driver places them.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
memory          sparse memory: bytes by address, and the mapped ranges
launch          a program placed in memory; its names are also those of this package
parameters      arguments of kernels, and their parameter block
arguments       arguments of kernels in the syntax of the command line
instructions    whether a machine has all the instructions of a kernel
programs        programs by file name
descriptor      a launch descriptor in memory beside the program
attributes      a kernel's limits on a machine
runtime         memory of the runtime: kernel output and heap
==============  =======================================================================================================
"""

from sim.launch.launch import (
    BANK_ALIGNMENT,
    CRS_DEFAULT,
    DRIVER_WORDS,
    LOCAL_DEFAULT,
    LOCAL_GRANULE,
    LOCAL_MEMORY,
    LOCAL_WINDOW,
    PROGRAM_BASE,
    SHARED_LIMIT,
    SHARED_WINDOW,
    WINDOW_BYTES,
    Launch,
    Placement,
    bank_name,
    lacking,
    place,
    prepare,
    with_trap_handler,
)
from sim.launch.parameters import Argument, Buffer, Scalar, Structure

__all__ = [
    "BANK_ALIGNMENT",
    "CRS_DEFAULT",
    "DRIVER_WORDS",
    "LOCAL_DEFAULT",
    "LOCAL_GRANULE",
    "LOCAL_MEMORY",
    "LOCAL_WINDOW",
    "PROGRAM_BASE",
    "SHARED_LIMIT",
    "SHARED_WINDOW",
    "WINDOW_BYTES",
    "Argument",
    "Buffer",
    "Launch",
    "Placement",
    "Scalar",
    "Structure",
    "bank_name",
    "lacking",
    "place",
    "prepare",
    "with_trap_handler",
]
