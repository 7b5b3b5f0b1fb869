"""Access of a simulation to the values of a compiled model, which is a fake: signals, clocks,
memories, changes.
"""

import ctypes
from array import array
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import MemoryData, Signal, signed

from sim.engine import model as model_module
from sim.engine.locations import MemoryLocation, SignalLocation, WordBits
from sim.engine.messages import Message, Messages
from sim.engine.model import FAILURE, ROOM, TEXT, CompiledModel, Field, MemoryField
from sim.engine.states import ClockState, DrivenState, InputState, MemoryState
from testbench.fakes import fake


class Words:
    """The stored words and memory rows of a model; it records the calls that change them."""

    def __init__(self, words=(), rows=()):
        self.words, self.rows = list(words), list(rows)
        self.told: list[Any] = []
        self.fresh = True

    def touch(self, place):
        self.told.append(("word", place))

    def touch_memory(self, number):
        self.told.append(("memory", number))

    def refresh(self):
        self.told.append("refresh")
        self.fresh = True


def field(words, *pieces, constant=0, combinational=False):
    model: Any = words
    return Field(
        model, SignalLocation(tuple(WordBits(*piece) for piece in pieces), constant, combinational)
    )


# Signals


def test_a_signal_is_read_from_pieces_of_words_and_constants():
    words = Words([0xABCD, 0x1234_5678, 3])
    one = field(words, (0, 4, 8, 0), (2, 0, 2, 8), constant=1 << 10)
    assert one.read() == 0xBC | 3 << 8 | 1 << 10
    assert field(words, constant=9).read() == 9
    assert words.told == []


def test_a_signal_that_is_written_changes_only_its_bits_and_says_so():
    words = Words([0xABCD, 0xFFFF])
    field(words, (0, 4, 8, 0), (1, 8, 4, 8)).write(0x512)
    assert words.words == [0xA12D, 0xF5FF]
    assert words.told == [("word", 0), ("word", 1)] and words.fresh is False


def test_a_computed_signal_brings_words_up_to_date_when_they_are_not():
    words = Words([7])
    computed = field(words, (0, 0, 4, 0), combinational=True)
    assert computed.read() == 7 and words.told == []
    words.fresh = False
    assert field(words, (0, 0, 4, 0)).read() == 7 and words.told == []
    assert computed.read() == 7 and words.told == ["refresh"]
    assert computed.read() == 7 and words.told == ["refresh"]


def test_rows_of_a_memory_have_several_words():
    words = Words(rows=[0] * 10)
    model: Any = words
    rows = MemoryField(model, MemoryLocation(3, 2, 2))
    rows.write((5 << 64) | 6, 1)
    assert words.rows == [0, 0, 0, 0, 6, 5, 0, 0, 0, 0]
    assert words.told == [("memory", 3)] and words.fresh is False
    assert rows.read(1) == 5 << 64 | 6 and rows.read() == 0
    rows.write((1 << 130) - 1)
    assert rows.read(0) == (1 << 128) - 1


def test_an_input_is_written_when_it_is_committed_and_changed():
    words, pending, noted = Words([0]), set(), []
    signal = Signal(signed(4), init=-2)
    state = InputState(signal, pending, field(words, (0, 0, 4, 0)), lambda: noted.append(1))
    assert (state.mask, state.signed) == (15, True)
    assert not InputState(Signal(4), pending, field(words, (0, 0, 4, 0)), lambda: None).signed
    state.reset()
    assert words.words == [0xE] and not noted
    state.update(-3)
    assert words.words == [0xE]
    assert state.commit() is True
    assert words.words == [0xD] and noted == [1]
    state.update(-3)
    assert not state.commit() and noted == [1]


def test_a_clock_says_its_edges_and_follows_those_of_the_model():
    words, noted = Words([0]), []
    clock = Signal(name="clk")
    state = ClockState(clock, set(), field(words, (0, 3, 1, 0)), noted.append)
    state.reset()
    state.update(1)
    assert state.commit() is True and noted == [state]
    assert words.words == [0]  # the step writes it
    state.update(1)
    assert not state.commit() and noted == [state]
    state.jump(0)
    assert (state.curr, state.next) == (0, 0)
    state.update(0)
    assert not state.commit()
    state.jump(1)
    state.reset()
    assert words.words == [0] and state.curr == 0


def test_a_driven_signal_has_the_sign_of_its_shape_and_wakes_when_it_changes():
    words, noted, watched, woken = Words([0b0101]), [], [], []
    signal = Signal(signed(4), init=3)
    state = DrivenState(
        signal, field(words, (0, 0, 4, 0)), False, lambda: noted.append(1), watched.append
    )
    assert state.curr == state.next == 5 and state.last == 3
    words.words[0] = 0b1101
    assert state.curr == -3

    def waker(before, now):
        woken.append((before, now))
        return True

    state.add_waker(waker)
    state.add_waker(waker)
    assert watched == [state] and state.last == -3 and len(state.wakers) == 2
    state.check()
    assert woken == []
    words.words[0] = 0b0111
    state.check()
    state.check()
    assert woken == [(-3, 7), (-3, 7)]
    state.update(0b1000, 0b1010)
    assert words.words == [0b1101] and noted == [1]
    state.update(-1)
    assert words.words == [0b1111]
    state.reset()
    assert state.last == 3


def test_rows_that_a_testbench_writes_are_applied_on_commit():
    words, noted, pending = Words(rows=[0] * 4), [], set()
    model: Any = words
    memory = MemoryData(shape=signed(4), depth=3, init=[])
    state = MemoryState(
        memory, pending, MemoryField(model, MemoryLocation(0, 0, 1)), lambda: noted.append(1)
    )
    words.rows[1] = 0b1010
    assert [state.read(row) for row in range(-1, 5)] == [0, 0, -6, 0, 0, 0]
    state.write(1, 0b0011, 0b0110)
    state.write(1, 0b1000, 0b1000)
    state.write(2, -1)
    state.write(3, 7)
    state.write(-1, 7)
    assert words.rows == [0, 0b1010, 0, 0] and pending == {state}
    assert state.commit() is True
    assert words.rows == [0, 0b1010, 0b1111, 0] and noted == [1]
    state.write(2, -1)
    assert state.commit() is False and noted == [1]
    state.write(0, 5)
    state.reset()
    assert state.commit() is False and words.rows[0] == 0


# Model


class Library:
    """The functions of a compiled model: calls are recorded, results are those of ``results``."""

    def __init__(self):
        self.calls: list[Any] = []
        self.results: dict[str, Any] = {"create": 77, "words": [1, 2], "memory": [3]}

    def __getattr__(self, name):
        assert name.startswith("model_")
        short = name.removeprefix("model_")

        def call(*arguments):
            self.calls.append((short, *arguments[1:]))
            result = self.results.get(short)
            return result(*arguments) if callable(result) else result

        return call


@pytest.fixture
def library(monkeypatch):
    made = Library()
    monkeypatch.setattr(model_module, "_library", lambda _path: made)
    return made


def model_of(*messages, settles=False):
    return CompiledModel(Path("m.so"), Messages(messages), settles)


def test_a_model_has_the_words_of_its_library(library):
    made = model_of(settles=True)
    assert (made.words, made.rows, made.fresh, made.settles) == ([1, 2], [3], False, True)
    assert made.path == Path("m.so")
    made.fresh = True
    made.reset()
    assert made.fresh is False
    made.touch(5)
    made.touch_memory(6)
    made.refresh()
    assert made.fresh is True
    assert library.calls[-4:] == [("reset",), ("touch", 5), ("touch_memory", 6), ("look",)]


def test_a_step_reports_what_was_printed_and_what_failed(library):
    clocked = [
        Message("print", "a:1", True, ("hello",)),
        Message("assert", "a:2", True, ("bad",)),
    ]
    made = model_of(*clocked)
    library.results |= {"events_size": 0}
    made.fresh = True
    assert made.step() == 0 and made.fresh is False
    assert ("checks",) not in library.calls and ("clear_events",) not in library.calls
    library.results |= {"events_size": 1, "events": [0, 99]}
    assert made.step() == TEXT == 1
    assert library.calls[-1] == ("clear_events",)
    library.results |= {"events": [1, 99]}
    assert made.step() == TEXT | FAILURE == 3
    assert made.take_text() == "hello" and made.failure() == ("a:2", "Assertion violated: bad")
    library.results |= {"events_size": 0}
    assert made.step() == FAILURE == 2
    made.reset()
    assert made.step() == 0


def test_checks_without_a_clock_are_called_in_each_step(library):
    library.results |= {"events_size": 0}
    made = model_of(Message("print", "a:1", False, ()))
    made.step()
    assert [call[0] for call in library.calls[-3:]] == ["step", "checks", "events_size"]


def test_a_signal_is_watched_by_its_pieces_and_constants_in_words_of_32_bits(library):
    made = model_of()
    made.watch(field(made, (4, 1, 8, 0), (5, 0, 30, 40), constant=7 << 33), 70)
    name, numbers, pieces, constant, words = library.calls[-1]
    assert (name, list(numbers), pieces) == ("watch", [4, 1, 8, 0, 5, 0, 30, 40], 2)
    assert (list(constant), words) == ([0, 14, 0], 3)
    made.watch(field(made, constant=5), 32)
    name, numbers, pieces, constant, words = library.calls[-1]
    assert (len(numbers), pieces, list(constant), words) == (1, 0, [5], 1)


def test_changes_are_read_by_the_widths_of_their_signals(library):
    made = model_of()
    for width in (70, 1):
        made.watch(field(made, (0, 0, 1, 0)), width)
    records = array("I", [3, 1, 1, 3, 0, 5, 6, 7, 9, 1, 0])
    library.results |= {"changes_size": len(records), "changes": records.buffer_info()[0]}
    assert made.recorded == 11
    assert made.take_changes() == [(3, 1, 1), (3, 0, 5 | 6 << 32 | 7 << 64), (9, 1, 0)]
    assert library.calls[-1] == ("clear_changes",)


def test_a_sample_says_when_it_is_time_to_take_the_changes(library):
    made = model_of()
    assert ROOM == 1 << 18
    for size, full in ((0, False), (ROOM - 1, False), (ROOM, True), (ROOM + 1, True)):
        library.results["sample"] = size
        made.fresh = False
        assert made.sample() is full and made.fresh


@pytest.mark.parametrize(
    ("until", "asked", "passed", "hit", "expected"),
    [
        (None, (9, -1, 0), 9, 0, (9, False, 0)),
        (None, (9, -1, 0), 4, 1, (4, True, 0)),
        (((6, 3, 1, 0),), (9, 6, 3), 9, 0, (9, False, 0)),
        (((6, 3, 1, 0),), (9, 6, 3), 2, 1, (2, True, 0)),
        (0, (9, -1, 0), 9, 0, (9, False, 0)),
        (1, (1, -1, 0), 1, 0, (1, True, 0)),
    ],
)
def test_the_clock_runs_until_a_bit_is_1_which_may_be_constant(
    library, until, asked, passed, hit, expected
):
    made = model_of()
    library.results |= {"events_size": 0}

    def run(_model, clock, shift, count, place, place_shift, room, flag):
        assert (clock, shift, room) == (2, 5, ROOM)
        assert (count, place, place_shift) == asked
        flag._obj.value = hit
        return passed

    library.results["run"] = run
    clock = field(made, (2, 5, 1, 0))
    condition = (
        None
        if until is None
        else field(made, constant=until)
        if isinstance(until, int)
        else field(made, *until)
    )
    made.fresh = True
    assert made.run(clock, 9, condition) == expected and made.fresh is False


def test_a_constant_that_is_0_does_not_end_a_run_of_one_cycle(library):
    made = model_of()
    library.results |= {"events_size": 0, "run": 1}
    assert made.run(field(made, (2, 5, 1, 0)), 1, field(made, constant=0)) == (1, False, 0)


def test_a_tape_takes_the_place_of_the_library_until_it_is_stopped(library):
    made = model_of()
    tape = made.record()
    assert made._library is tape and tape.library is library
    made.touch(1)
    assert library.calls[-1] == ("touch", 1)
    made.stop(tape)
    assert made._library is library


def test_functions_of_a_library_have_the_types_of_the_runtime(monkeypatch):
    functions: dict[str, Any] = {}

    class Loaded:
        def __init__(self, path):
            functions["path"] = path

        def __getattr__(self, name):
            return functions.setdefault(name, fake())

    monkeypatch.setattr(model_module.ctypes, "CDLL", Loaded)
    model_module._library(Path("x.so"))
    assert functions.pop("path") == "x.so"
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    assert functions["model_create"].argtypes == []
    assert functions["model_touch"].argtypes == [pointer, number]
    assert functions["model_touch"].restype is None
    assert functions["model_events_size"].restype is ctypes.c_size_t
    assert functions["model_run"].argtypes[:6] == [
        pointer, number, number, ctypes.c_size_t, ctypes.c_int64, number,
    ]  # fmt: skip
    assert len(functions) == 19
