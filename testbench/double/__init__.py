"""Testbench of the unit for double precision."""
