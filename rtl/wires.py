"""Wires that synthesis keeps."""

__all__ = ["KEEP"]

KEEP = {"keep": 1}
"""Attributes of a wire across which synthesis does not rearrange logic: the few levels that were meant stay few."""
