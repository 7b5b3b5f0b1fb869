"""The fetch unit of the serial machine, which brings one instruction at a time.

==========  ==================================================================================
module      content
==========  ==================================================================================
unit        the steps of an instruction: its group, its kind, its constant operand
beat_cache  the cache, for instructions and constants
walk        the predecoder, which walks through the instruction table, a bit of the word a cycle
diagram     a table as a decision diagram
==========  ==================================================================================
"""

from .unit import SerialFetch
from .walk import InstructionDiagram, WalkingPredecoder

__all__ = ["InstructionDiagram", "SerialFetch", "WalkingPredecoder"]
