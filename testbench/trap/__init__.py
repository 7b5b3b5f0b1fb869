"""Traps and errors: testbenches of the trap unit and of the whole machine."""
