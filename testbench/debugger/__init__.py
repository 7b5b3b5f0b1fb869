"""Tests of the debugger and of the trap handlers' code."""
