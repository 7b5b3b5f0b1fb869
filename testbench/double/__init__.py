"""Tests of the unit for double precision."""
