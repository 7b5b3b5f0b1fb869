"""The lane of the serial machine: a full lane that computes a byte in a cycle."""

from .lane import BYTE_LANE_CYCLES, ByteLane
from .lanes import SerialLanes

__all__ = ["BYTE_LANE_CYCLES", "ByteLane", "SerialLanes"]
