"""Coverage of random instructions of the memory unit: lines, conflicts, errors, instructions in
flight.

Accesses are counted in the warp model, overlaps at the unit's ports. The coverage points do not
depend on the implementation of the unit.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rtl.isa.errors import WarpError
from rtl.isa.kinds import size_bytes
from rtl.isa.syntax import Form
from rtl.isa.tokens import LINE_BYTES
from rtl.params import LOCAL_WINDOW, SHARED_WINDOW, WARP_THREADS, WINDOW_BYTES
from testbench.memory.world import MemoryStep
from testbench.words import form_of

LEAST_OVERLAP = 4
"""The minimum of the deepest overlap in each random program, in instructions that have read their
registers and are not complete. It is one less than the programs of many seeds have reached, on four
and on eight lanes. A unit that executes one instruction while it reads the registers of the next
one reaches 2.
"""
LEAST_WAITING = 8
"""The same for instructions that the unit has accepted, including those that wait."""
LEAST_LINES_UNDER_WAY = 5
"""The same for requests to memory without a response."""

_BANKS = 32
"""Banks of sm_50's shared memory, each a word wide."""
_WORD = 4
_SHARED, _LOCAL, _GLOBAL = {"LDS", "STS", "ATOMS"}, {"LDL", "STL"}, {"LDG", "STG", "ATOM", "RED"}
_ATOMIC = {"ATOM", "ATOMS", "RED"}
_UP_TO = (1, 2, 4, 8, 16, 32)
_ERRORS = (
    WarpError.MMU_FAULT,
    WarpError.MISALIGNED_ADDR,
    WarpError.OOR_ADDR,
    WarpError.INVALID_ADDR_SPACE,
    WarpError.INVALID_CONST_ADDR_LDC,
)
_TELLS = ("reported", "not reported")


def _range(number: int) -> str:
    """The name of the range of powers of two that contains a number."""
    most = next((most for most in _UP_TO if number <= most), None)
    if most is None:
        return f"more than {_UP_TO[-1]}"
    return str(most) if most <= 2 else f"{most // 2 + 1} to {most}"


_RANGES = tuple(map(_range, _UP_TO))
EXPECTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "lines of global memory": _RANGES,
        "lines of local memory": _RANGES,
        "conflict degree": _RANGES[:4],  # the shared memory of these CTAs has eight words per bank
        "threads of an atomic operation at one word": _RANGES,
        # An unreported error of a constant is no error: zeros are loaded.
        "error": tuple(
            f"{error.name}, {tells}"
            for error in _ERRORS
            for tells in _TELLS
            if (error, tells) != (WarpError.INVALID_CONST_ADDR_LDC, "not reported")
        ),
    }
)
"""The coverage points of random programs, by group."""
_LEAST = MappingProxyType(
    {
        "instructions that have read registers": LEAST_OVERLAP,
        "instructions accepted": LEAST_WAITING,
        "lines under way": LEAST_LINES_UNDER_WAY,
    }
)
_READ, _ACCEPTED, _LINES = _LEAST


def _words(form: Form, word: int) -> range:
    """The offsets in words that a thread accesses from its address; of an atomic operation only the
    first.
    """
    count = 1 if form.name in _ATOMIC else size_bytes(form.values(word)["size"]) // _WORD
    return range(max(count, 1))


class MemoryCoverage:
    """Counters of coverage points.

    Attributes:
        reached: Number of accesses of each kind, by group.
        depths: How often each number of operations was in flight, counted at the start of each one.
    """

    def __init__(self) -> None:
        self.reached: dict[str, Counter[str]] = {group: Counter() for group in EXPECTED}
        self.depths: dict[str, Counter[int]] = {what: Counter() for what in _LEAST}

    def take(self, steps: Iterable[MemoryStep]) -> None:
        """Counts instructions that the warp model has executed."""
        for step in steps:
            if step.fault is not WarpError.NONE:
                reported = _TELLS[step.error is WarpError.NONE]
                self.reached["error"][f"{step.fault.name}, {reported}"] += 1
            elif step.addresses:
                self._access(step)

    def _access(self, step: MemoryStep) -> None:
        form = form_of(step.word)
        words = _words(form, step.word)
        spaces: dict[str, dict[int, int]] = {"global": {}, "local": {}, "shared": {}}
        for thread, address in step.addresses.items():
            space, place = _placed(form, address)
            spaces[space][thread] = place
        lines = {address // LINE_BYTES for address in spaces["global"].values()}
        local = {
            (WARP_THREADS * (address // _WORD + word) + thread) * _WORD // LINE_BYTES
            for thread, address in spaces["local"].items()
            for word in words
        }
        for space, found in (("global", lines), ("local", local)):
            if found:
                self.reached[f"lines of {space} memory"][_range(len(found))] += 1
        wanted = {
            address // _WORD + word for address in spaces["shared"].values() for word in words
        }
        if wanted and form.name not in _ATOMIC:
            degree = max(Counter(word % _BANKS for word in wanted).values())
            self.reached["conflict degree"][_range(degree)] += 1
        if form.name in _ATOMIC:
            together = max(Counter(step.addresses.values()).values())
            self.reached["threads of an atomic operation at one word"][_range(together)] += 1

    def accepted(self, depth: int) -> None:
        """Counts an accepted instruction; ``depth`` instructions are not complete."""
        self.depths[_ACCEPTED][depth] += 1

    def read_registers(self, depth: int) -> None:
        """Counts an instruction that has read its registers; ``depth`` such instructions are not
        complete.
        """
        self.depths[_READ][depth] += 1

    def requested(self, depths: Counter[int]) -> None:
        """Adds how often each number of requests to memory was in flight."""
        self.depths[_LINES].update(depths)

    def add(self, other: "MemoryCoverage") -> None:
        """Adds the counters of another program."""
        for group, kinds in self.reached.items():
            kinds.update(other.reached[group])
        for what, depths in self.depths.items():
            depths.update(other.depths[what])

    def rows(self) -> list[list[str | int]]:
        """A row for each coverage point and each other kind of access, with its count."""
        rows: list[list[str | int]] = []
        for group, counts in self.reached.items():
            others = sorted(counts.keys() - set(EXPECTED[group]))
            rows += [[f"{group}: {kind}", counts[kind]] for kind in (*EXPECTED[group], *others)]
        return rows + [
            [f"{what} at once: {depth}", count]
            for what, counts in self.depths.items()
            for depth, count in sorted(counts.items())
        ]

    def missing(self) -> list[str]:
        """The coverage points that were not reached."""
        return [
            f"{group}: {kind}"
            for group, kinds in EXPECTED.items()
            for kind in kinds
            if not self.reached[group][kind]
        ]

    def shallow(self) -> list[str]:
        """A message for each overlap that was not deep enough."""
        return [
            f"{what} at once: {max(self.depths[what], default=0)}, not {least}"
            for what, least in _LEAST.items()
            if max(self.depths[what], default=0) < least
        ]


def _placed(form: Form, address: int) -> tuple[str, int]:
    """The memory space of an address, and its offset in that space."""
    for space, names, window in (
        ("shared", _SHARED, SHARED_WINDOW),
        ("local", _LOCAL, LOCAL_WINDOW),
    ):
        if form.name in names:
            return space, address
        if form.name not in _GLOBAL and window <= address < window + WINDOW_BYTES:
            return space, address - window
    return "global", address
