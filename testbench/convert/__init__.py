"""Testbench of the conversion unit, against the warp model and the thread model."""
