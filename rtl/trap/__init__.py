"""Traps: who enters the handler and why, who waits there, and when all go back.

A warp enters the trap, and leaves it, by something that issue puts in the place of its next instruction (kinds ENTER
and LEAVE) and that the flow unit executes like any other flow instruction: the pc, the masks and the trap frame on the
stack are its work. This unit says when.

::

    BPT, RTT, IDE --> decode --> WarpTraps, a bit a warp --> hold, enter, leave --> issue
    errors of all units -------->   |    ^                withdraw ------------> barrier unit
                                    v    |
                  causes, who waits --> SmTrap <-- stop trigger, wake-up: host
                                    |    `--> trapping, locked down, events: host; no CTA starts
                                    v
    dispatched ENTER, LEAVE --> what the flow unit does, the address to come back to

=======  =========================================================================================
module   content
=======  =========================================================================================
decode   what a BPT, IDE or RTT asks for
warps    every warp's part: whether it enters, where it is, when it goes on
status   why warps trap, as S2R reads it, and which of their instructions failed
machine  the whole multiprocessor's part: entry, release, lock-down
unit     the parts joined; from ENTER and LEAVE to flow operations; the watchdog
=======  =========================================================================================

A trap begins with a cause: the host's stop trigger, a warp error that is reported, BPT.TRAP, a step that is done.
Every warp that lives then enters before its next instruction, when all its earlier ones are complete; those that mask
traps (IDE.DI) do so for errors and for reason 7 only, for others when they unmask them. A warp that waits at a barrier
has its arrival taken back and comes back to its BAR.

In the handler a warp runs, waits at RTT, or is paused. When none runs, some wait at RTT and the host does not hold the
stop trigger, those that wait leave together. Paused warps go on only when the host wakes them, which counts for
nothing unless the multiprocessor is trapped.

Without a handler a warp that traps is paused as it is, and nothing is pushed; woken, it counts as waiting at RTT, and
goes on when the others do (ours). So is a warp whose stack has no room for the frame. An error or BPT.TRAP in the
handler sets ERROR_IN_TRAP and pauses the warp (ours).
"""

from .unit import TrapUnit

__all__ = ["TrapUnit"]
