"""Tests of the PTX compiler."""
