"""Waveforms: deterministic VCD and FST files, GTKWave save files for them, and pictures of parts of
them.

A testbench describes its traces as a tree of names, and marks the main ones
(:mod:`sim.waves.traces`). :class:`Tracer` records it, :func:`write_save_file` makes GTKWave show it
from the first event of interest on, and ``python -m sim.waves.picture`` draws a part of it as SVG.
A waveform is identical byte by byte in every run and on every engine, so that two can be compared
with ``cmp``. ``python -m sim.waves UNIT --open`` records one and opens it.
"""

from sim.waves.errors import error_text
from sim.waves.fst import check_fst
from sim.waves.instructions import instruction, instruction_text
from sim.waves.save_file import save_file_of, write_save_file
from sim.waves.tracer import Tracer
from sim.waves.traces import Mark, Text, Trace, Traces, View

__all__ = [
    "Mark",
    "Text",
    "Trace",
    "Tracer",
    "Traces",
    "View",
    "check_fst",
    "error_text",
    "instruction",
    "instruction_text",
    "save_file_of",
    "write_save_file",
]
