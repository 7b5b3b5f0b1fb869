"""Testbench of the execute unit around its lanes."""
