"""The call/return stack has no end with eight tokens of a warp on chip either: the theorem `stack` of two lines."""

from dataclasses import replace

from rtl.params import PRESETS
from testbench.formal.prove_stack import theorem

THEOREM = theorem(replace(PRESETS["tiny"], stack_tokens=8))
