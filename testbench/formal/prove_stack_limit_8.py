"""The limits hold with eight tokens of a warp on chip: the theorem `stack_limit` with half the step
between limits.
"""

from dataclasses import replace

from rtl.params import PRESETS
from testbench.formal.prove_stack_limit import theorem

THEOREM = theorem(replace(PRESETS["tiny"], stack_tokens=8))
