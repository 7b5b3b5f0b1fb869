"""Tests of the commands, and of the cycle counts in the manual."""
