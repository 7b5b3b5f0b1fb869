"""The call/return stack is also unbounded with eight tokens of a warp on chip: the theorem `stack`
for two lines.

One fault of `stack` is not checked here: with two lines on chip the theorem also holds with it.
"""

from dataclasses import replace

from rtl.params import PRESETS
from testbench.formal.prove_stack import FAULTS, STALE_SPILL, theorem

THEOREM = theorem(
    replace(PRESETS["tiny"], stack_tokens=8),
    tuple(fault for fault in FAULTS if fault is not STALE_SPILL),
)
