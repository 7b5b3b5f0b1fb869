"""Alignment of addresses and sizes."""

__all__ = ["round_up"]


def round_up(value: int, granule: int) -> int:
    """Returns the least multiple of ``granule`` that is not less than ``value``."""
    return -(-value // granule) * granule
