"""CTA barriers: BAR, B2R and R2B of all CTAs that run; see docs/barriers_traps.md.

An instruction waits in the queue of ``request`` and then passes the steps of ``unit``.
"""

from .unit import BarrierUnit

__all__ = ["BarrierUnit"]
