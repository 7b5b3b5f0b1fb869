"""Testbenches of the whole machine: kernels, random programs, errors, refused instructions,
conversion of each unit.
"""
