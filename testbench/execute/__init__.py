"""Testbench of the lanes: every form of their instructions, and the lanes as a model for other
units.
"""
