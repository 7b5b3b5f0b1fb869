"""Launches: a kernel's program, its arguments and its memory, as a driver places them.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
memory          bytes by address, the pages of it that are mapped
launch          a program placed in memory; its names are also those of this package
arguments       arguments of kernels as commands spell them
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
    Argument,
    Buffer,
    Launch,
    Placement,
    Scalar,
    bank_name,
    lacking,
    place,
    prepare,
    with_trap_handler,
)

__all__ = ["BANK_ALIGNMENT", "CRS_DEFAULT", "DRIVER_WORDS", "LOCAL_DEFAULT", "LOCAL_GRANULE",
           "LOCAL_MEMORY", "LOCAL_WINDOW", "PROGRAM_BASE", "SHARED_LIMIT", "SHARED_WINDOW", "WINDOW_BYTES", "Argument",
           "Buffer", "Launch", "Placement", "Scalar", "bank_name", "lacking", "place", "prepare", "with_trap_handler"]
