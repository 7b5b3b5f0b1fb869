"""Limits hold with eight tokens of a warp on chip: the theorem `stack_limit`, of half a step of limits."""

from dataclasses import replace

from rtl.params import PRESETS
from testbench.formal.prove_stack_limit import theorem

THEOREM = theorem(replace(PRESETS["tiny"], stack_tokens=8))
