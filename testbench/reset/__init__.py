"""Resets of the whole machine at any time, and memories that hold anything."""
