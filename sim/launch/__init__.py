"""Launches: a kernel's program, its arguments and its memory, as a driver places them.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
memory          bytes by address, the pages of it that are mapped
launch          a program placed in memory; its names are also those of this package
parameters      arguments of kernels, and the block of parameters that they become
arguments       arguments of kernels as commands spell them
instructions    whether a machine has all the instructions of a kernel
programs        programs by file name
descriptor      a launch descriptor in memory beside the program
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
