"""The call/return stack has no end with eight tokens of a warp on chip either: the theorem `stack` of two lines.

One fault of `stack` is none here: with two lines on chip the theorem holds with it, too.
"""

from dataclasses import replace

from rtl.params import PRESETS
from testbench.formal.prove_stack import FAULTS, STALE_SPILL, theorem

THEOREM = theorem(
    replace(PRESETS["tiny"], stack_tokens=8),
    tuple(fault for fault in FAULTS if fault is not STALE_SPILL),
)
