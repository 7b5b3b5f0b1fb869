"""Testbench of the call/return stack: driver, directed cases, random operations, reference
model.
"""
