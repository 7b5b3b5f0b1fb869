"""The call/return stack: tokens of flow instructions, and the frames of the trap handler.

docs/control_flow.md explains what it does, "Terms of the stack" in rtl/README.md the words, and
docs/units/crs.md the structure. Begin with unit.py, then follow an operation through the stages:
access.py, change.py, judge.py, commit.py. The spill and fill engine, engine.py, moves lines with
lines.py; tokens.py is the memory of tokens, records.py the state of warps.
"""

from .unit import CallReturnStack

__all__ = ["CallReturnStack"]
