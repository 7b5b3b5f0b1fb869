"""The stages of two shifters: alignment, to the right, and normalization, to the left."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from rtl.leading_zeros import leading_zeros

__all__ = [
    "COARSE_LEVELS",
    "DISTANCE_BITS",
    "FINE_BITS",
    "FINE_LEVELS",
    "SHIFT_STAGES",
    "aligned",
    "normalized_coarse",
    "normalized_fine",
    "saturated",
]

SHIFT_STAGES = 2
DISTANCE_BITS = 7
FINE_BITS = 4
"""The lower bits of a distance, by which the second stage of a shifter shifts; the first one shifts
by the upper bits."""
COARSE_LEVELS = tuple(range(DISTANCE_BITS - 1, FINE_BITS - 1, -1))
FINE_LEVELS = tuple(range(FINE_BITS - 1, -1, -1))
"""The bits of a distance by which each stage shifts."""
_STEP = 1 << FINE_BITS
"""The distance of which the first stage shifts by a multiple."""


def saturated(distance: Value) -> Value:
    """A distance, which is not negative, limited to the greatest one of DISTANCE_BITS."""
    is_far = distance[DISTANCE_BITS:].any()
    return distance[:DISTANCE_BITS] | is_far.replicate(DISTANCE_BITS)


def aligned(value: Value, distance: Value, levels: tuple[int, ...]) -> tuple[Value, Value]:
    """The value shifted right by these bits of ``distance``; and whether a 1 was shifted out."""
    lost: Value = Const(0, 1)
    for level in levels:
        step = 1 << level
        shifts = distance[level]
        lost = lost | (shifts & value[:step].any())
        value = Mux(shifts, value[step:], value)
    return value, lost


def normalized_coarse(m: Module, value: Value, most: Value) -> tuple[Value, Value, Value]:
    """The first stage of a shift to the left until the top bit is 1, but at most by ``most``.

    Returns the value after a shift by a multiple of 16; that multiple, of three bits; and how far
    the second stage may shift at most.
    """
    starts = range(len(value), 0, -_STEP)
    groups = [value[max(start - _STEP, 0):start] for start in starts]
    zero_groups = leading_zeros(Cat(group.any() for group in reversed(groups)))
    limit = most[FINE_BITS:]
    is_limited = Signal(name="coarse_is_limited")
    count = Signal(DISTANCE_BITS - FINE_BITS, name="coarse_count")
    m.d.comb += is_limited.eq(zero_groups >= limit)
    m.d.comb += count.eq(Mux(is_limited, limit, zero_groups))
    # Without the limit the shift is shorter than ``most`` by 16 at least.
    fine_most = Mux(is_limited, most[:FINE_BITS], _STEP - 1)
    return _shifted_left(value, count, _STEP), count, fine_most


def normalized_fine(m: Module, value: Value, most: Value) -> tuple[Value, Value]:
    """The second stage: the value after the rest of the shift, and its distance, of four bits."""
    zeros = leading_zeros(value[-_STEP:])
    distance = Signal(FINE_BITS, name="fine_distance")
    m.d.comb += distance.eq(Mux(zeros >= most, most, zeros))
    return _shifted_left(value, distance, 1), distance


def _shifted_left(value: Value, count: Value, step: int) -> Value:
    """The value shifted left by ``count`` times ``step``, in as many bits."""
    for bit in reversed(range(len(count))):
        distance = step << bit
        value = Mux(count[bit], Cat(Const(0, distance), value[:-distance]), value)
    return value
