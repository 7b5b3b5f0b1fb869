"""Numbers that are multiples of others, as addresses and sizes are."""

__all__ = ["round_up"]


def round_up(value: int, granule: int) -> int:
    """The least multiple of ``granule`` that is not less than ``value``."""
    return -(-value // granule) * granule
