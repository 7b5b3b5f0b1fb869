"""CTA barriers: which warps arrive, which wait, and when they are released.

A barrier counts warps, regardless of how many of their threads execute the instruction. It releases
the waiting warps when the number that the last arrival expects have arrived: a number of threads in
whole warps, or every live warp of the CTA. A warp that has ended is no longer expected; one that
arrived without waiting and then ended stays counted (ours).

The entry of a trap withdraws a warp that waits: its arrival and its contribution to a reduction are
removed, and the flags of the reduction are computed again from the warps that still wait. Arrivals
by BAR.ARV or R2B stay, but a barrier without arrivals is reset (ours).
"""

from rtl.isa.barriers import SYNCALL_BARRIER

from .state import BARRIER_FIELDS, Cta, Warp

__all__ = ["settle", "withdraw"]


def settle(cta: Cta) -> None:
    """Releases the warps of every complete barrier."""
    for barrier in cta.barriers:
        if barrier.arrived and barrier.arrived >= (barrier.expected or len(cta.warps)):
            for arrival in barrier.waiting:
                arrival.warp.barrier = None
                if arrival.reduction is not None:
                    arrival.warp.reduction = barrier.reduced(arrival.reduction)
            barrier.waiting.clear()
            barrier.unpack(0)


def withdraw(warp: Warp) -> None:
    """Withdraws the arrival of a waiting warp; it no longer waits, and no warp is released.

    Raises ValueError if the warp waits at no barrier, or at BAR.SYNCALL's, which the trap handler
    does not leave.
    """
    if warp.barrier is None or warp.barrier == SYNCALL_BARRIER:
        raise ValueError(
            f"the warp in slot {warp.slot} waits at no barrier that it could be taken back from"
        )
    barrier = warp.cta.barriers[warp.barrier]
    warp.barrier = None
    gone = next(arrival for arrival in barrier.waiting if arrival.warp is warp)
    barrier.waiting.remove(gone)
    barrier.arrived = max(barrier.arrived - 1, 0)
    barrier.population = (
        barrier.population - gone.population & (1 << BARRIER_FIELDS["population"][1]) - 1
    )
    barrier.some_false = int(any(arrival.some_false for arrival in barrier.waiting))
    barrier.some_true = int(any(arrival.some_true for arrival in barrier.waiting))
    if not barrier.arrived:
        barrier.unpack(0)
