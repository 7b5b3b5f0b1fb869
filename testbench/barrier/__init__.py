"""Testbench of the barrier unit, against the warp model."""
