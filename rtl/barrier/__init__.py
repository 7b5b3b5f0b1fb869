"""CTA barriers: BAR, B2R and R2B of all CTAs that run; see docs/barriers_traps.md.

An instruction waits in the queue of ``queue`` and then passes the steps of ``unit``; ``stages`` has
what they hand to each other.
"""

from .unit import BarrierUnit

__all__ = ["BarrierUnit"]
