"""Testbench of the flow unit with its stack, against the warp model."""
