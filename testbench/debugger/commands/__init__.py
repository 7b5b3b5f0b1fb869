"""Tests of the debugger's commands and its driver, on fake warps and registers."""
