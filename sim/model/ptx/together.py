"""Instructions that need several threads: votes, shuffles, barriers."""

from collections.abc import Callable, Mapping

from rtl.isa.barriers import BARRIERS
from rtl.isa.kinds import ShuffleMode
from rtl.params import WARP_THREADS
from sim.model.threads import WAITING, BarrierWait, shuffle_source
from sim.toolchain.ptx.module import Sink

from .site import Maker, Site
from .state import Meeting, Operation, PtxFaultError, PtxThread

__all__ = ["TOGETHER"]


def _meeting(meet: Meeting) -> Operation:
    """Returns an operation that waits until no thread of the group runs; ``meet`` then executes it."""

    def run(thread: PtxThread, values: list[int]) -> int:
        thread.meeting = meet
        return WAITING

    return run


def _vote(site: Site) -> Operation:
    """Each thread counts the votes of the participating threads in its own member mask."""
    d = site.slots.of_operand(site.instruction.operands[0])
    p, negated = site.slots.predicate(site.instruction.operands[1])
    mask = site.slots.of_operand(site.instruction.operands[2]) if site.instruction.sync else None
    mode = site.instruction.operation

    def meet(members: list[PtxThread]) -> None:
        votes = {thread.lane: thread.frame.values[p] ^ negated for thread in members}
        for thread in members:
            values = thread.frame.values
            counted = (
                votes
                if mask is None
                else {lane: vote for lane, vote in votes.items() if values[mask] >> lane & 1}
            )
            values[d] = _VERDICTS[mode](counted)

    return _meeting(meet)


_VERDICTS: Mapping[str, Callable[[Mapping[int, int]], int]] = {
    "all": lambda votes: int(all(votes.values())),
    "any": lambda votes: int(any(votes.values())),
    "uni": lambda votes: int(len(set(votes.values())) < 2),
    "ballot": lambda votes: sum(vote << lane for lane, vote in votes.items()),
}
"""The result of each kind of vote, from the votes by lane."""


def _active_mask(site: Site) -> Operation:
    (d,) = site.operand_slots

    def meet(members: list[PtxThread]) -> None:
        mask = sum(1 << thread.lane for thread in members)
        for thread in members:
            thread.frame.values[d] = mask

    return _meeting(meet)


def _shuffle(site: Site) -> Operation:
    """shfl: a source lane outside of the segment gives a thread its own value. A lane that does not
    take part contributes 0 (ours).
    """
    d, p, a, b, c = site.operand_slots[:5]
    mode = ShuffleMode[site.instruction.operation.upper()]

    def meet(members: list[PtxThread]) -> None:
        given = {thread.lane: thread.frame.values[a] for thread in members}
        for thread in members:
            values = thread.frame.values
            source, inside = shuffle_source(mode, thread.lane, values[b], values[c])
            values[d] = given.get(source if inside else thread.lane, 0)
            values[p] = int(inside)

    return _meeting(meet)


def _groups(threads: int) -> int:
    if not threads or threads % WARP_THREADS:
        raise PtxFaultError(
            f"a barrier of {threads} threads: expected a multiple of {WARP_THREADS}"
        )
    return threads // WARP_THREADS


def _number(number: int) -> int:
    if number >= BARRIERS:
        raise PtxFaultError(f"barrier {number}: expected one below {BARRIERS}")
    return number


def _barrier(site: Site) -> Operation:
    """A group arrives at a barrier once, when none of its threads runs (ours, as in the hardware)."""
    match site.instruction.operation:
        case "warp":
            return _meeting(lambda members: None)
        case "red":
            return _reduction(site)
        case operation:
            pass
    number, *rest = site.operand_slots
    counts = rest[0] if rest and not isinstance(site.instruction.operands[1], Sink) else None

    def wait(thread: PtxThread, values: list[int]) -> int:
        thread.arrival = BarrierWait(
            _number(values[number]), None if counts is None else _groups(values[counts])
        )
        return WAITING

    def meet(members: list[PtxThread]) -> None:
        first = members[0].frame.values
        assert counts is not None
        members[0].cta.arrive(_number(first[number]), _groups(first[counts]))

    return wait if operation == "sync" else _meeting(meet)


def _reduction(site: Site) -> Operation:
    target, number_operand, threads, predicate = site.instruction.operands
    d, number = site.slots.of_operand(target), site.slots.of_operand(number_operand)
    counts = None if isinstance(threads, Sink) else site.slots.of_operand(threads)
    p, negated = site.slots.predicate(predicate)
    combine = {
        "popc": sum,
        "and": lambda votes: int(all(votes)),
        "or": lambda votes: int(any(votes)),
    }[site.instruction.reduction]

    def run(thread: PtxThread, values: list[int]) -> int:
        def finish(votes: list[int]) -> None:
            values[d] = combine(votes)

        thread.arrival = BarrierWait(
            _number(values[number]),
            None if counts is None else _groups(values[counts]),
            values[p] ^ negated,
            finish,
        )
        return WAITING

    return run


TOGETHER: Mapping[str, Maker] = {
    "vote": _vote,
    "activemask": _active_mask,
    "shfl": _shuffle,
    "bar": _barrier,
}
"""Makers of operations, by opcode."""
