"""The lane of a serial machine: a full lane that computes a byte in a cycle."""

from .lane import BYTE_LANE_CYCLES, ByteLane

__all__ = ["BYTE_LANE_CYCLES", "ByteLane"]
