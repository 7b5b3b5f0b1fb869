"""Testbench of resets of the whole machine, at any time and with any content of its memories."""
