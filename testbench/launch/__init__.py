"""Testbench of the work distributor, and tests of launches on the host."""
