"""Testbenches of the fetch and issue units."""
