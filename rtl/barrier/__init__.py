"""CTA barriers: BAR, B2R and R2B of all CTAs that run; see docs/barriers_traps.md.

An instruction waits in the queue of ``request`` and then passes the steps of ``unit``, which have the barriers of
``store``, and what is known of each warp by itself, in ``waiting``: so the arrival of one warp can be taken back.
"""

from .unit import BarrierUnit

__all__ = ["BarrierUnit"]
