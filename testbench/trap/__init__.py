"""Traps and errors: the trap unit, and of the whole machine."""
