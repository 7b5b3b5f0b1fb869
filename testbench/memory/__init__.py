"""Testbench of the memory unit, and litmus tests of the memory model."""
