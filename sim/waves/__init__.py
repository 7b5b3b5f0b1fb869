"""Waveforms: deterministic VCD files, GTKWave save files for them, and pictures of parts of them.

A testbench says what it wants to see as a tree of names (:mod:`sim.waves.traces`). :class:`Tracer` records it,
:func:`write_save_file` makes GTKWave show it, and ``python -m sim.waves.picture`` draws a part of it as SVG. A waveform
is the same in every run and on every engine, byte by byte, so that two can be compared with ``cmp``.
"""

from sim.waves.save_file import save_file_of, write_save_file
from sim.waves.tracer import Tracer
from sim.waves.traces import Trace, Traces

__all__ = ["Trace", "Tracer", "Traces", "save_file_of", "write_save_file"]
