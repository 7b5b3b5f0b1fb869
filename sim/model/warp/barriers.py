"""CTA barriers: which warps arrive, which wait, and when they are released.

A barrier counts warps, however many of their threads execute the instruction, and releases the
waiting ones when as many have arrived as the last arrival named: a number of threads in whole
warps, or every live warp of the CTA. A warp that ends is no longer among those; one that arrived
without waiting and then ended stays counted (ours).

A warp that waits can be withdrawn, as the entry of a trap does: with its arrival goes what it gave
to a reduction. The flags of the reduction are then computed from the warps that still wait. What
BAR.ARV or R2B have added stays, but a barrier without arrivals is reset (ours).
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
    """Withdraws the arrival of a warp that waits; it no longer waits, and no warp is released.

    Raises ValueError when the warp waits at no barrier, or at BAR.SYNCALL's, which the trap handler does not leave.
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
