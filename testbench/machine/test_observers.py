"""Observers of a machine, with results counted by hand: profile, timeline, waveform texts, events."""

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Signal

from rtl.isa.errors import WarpError
from rtl.isa.tokens import TokenKind
from rtl.layouts import DEPTH_BITS, InstructionKind, ThreadCode, WaitReason
from rtl.memory.instruction import BeatKind
from rtl.params import PRESETS
from rtl.retire import RetirementPort
from rtl.serial.core import SerialCore
from sim.machine import traces
from sim.machine.hardware_instructions import HardwareInstruction, of_thread, spread
from sim.machine.profile import Cost, PipelineWatch, Profile, SerialWatch
from sim.machine.retirement_events import EventReader, RetirementEvent
from sim.machine.timeline import IssuedInstruction, Span, Timeline
from testbench.fakes import fake
from testbench.words import encode

TINY = PRESETS["tiny"]
NOP = encode("NOP")


class Signals(SimpleNamespace):
    """Signals by name. ``changes`` makes changes of observed signals from a list of cycle, name and
    value.
    """

    def changes(self, watch, *changes):
        numbers = {id(signal): number for number, signal in enumerate(watch.signals)}
        return [(cycle, numbers[id(getattr(self, name))], value) for cycle, name, value in changes]


def pipeline_unit():
    """Returns a fake of a pipelined machine's memory unit, as a profile observes it, and its
    signals.
    """
    signals = Signals(
        begun=Signal(), slot=Signal(3), pc=Signal(16), found=Signal(), taken=Signal(), of=Signal(3),
        pending=Signal(2), conflict=Signal(), kind=Signal(2), half=Signal(3),
        shared=Signal(), atomic=Signal(), operation=Signal(3),
    )  # fmt: skip
    payload = fake(job=fake(pc=signals.pc), slot=signals.slot)
    unit = fake(
        front=fake(begun=fake(valid=signals.begun, payload=payload)),
        access=fake(
            found=fake(valid=signals.found, ready=signals.taken, payload=fake(slot=signals.of))
        ),
        crossbar=fake(
            pending=signals.pending,
            has_conflict=signals.conflict,
            located=fake(job=fake(kind=signals.kind, slot=signals.half)),
            shared=signals.shared,
        ),
        atomic=fake(busy=signals.atomic, read=fake(slot=signals.operation)),
    )
    return signals, unit


def pipeline():
    """Returns the signals of such a unit in a machine with four lanes, and their observer."""
    signals, unit = pipeline_unit()
    return signals, PipelineWatch(unit, TINY)


def test_lines_and_passes_are_those_of_the_instruction_in_the_slot():
    signals, watch = pipeline()
    watch.changes(
        signals.changes(
            watch,
            (5, "begun", 1), (5, "slot", 2), (5, "pc", 0x48), (6, "begun", 0),
            (8, "found", 1), (8, "of", 2), (10, "taken", 1), (13, "found", 0),
            (20, "pending", 3), (20, "half", 2), (22, "conflict", 1), (25, "conflict", 0), (25, "pending", 2),
            (27, "pending", 0),
            (30, "begun", 1), (30, "slot", 1), (30, "pc", 0x50), (31, "begun", 0),
            (31, "pending", 1), (31, "half", 1), (33, "half", 5), (34, "half", 1), (34, "kind", BeatKind.LINE.value),
            (36, "kind", BeatKind.LANES.value), (37, "kind", BeatKind.ANSWER.value),
        )
    )  # fmt: skip
    watch.finish(40)
    assert dict(watch.lines) == {0x48: 3}  # found and accepted in cycles 10 to 12
    # without the passes of lines and those of slot 5
    assert dict(watch.passes) == {0x48: 7, 0x50: 3}
    assert dict(watch.conflicts) == {0x48: 3}


def test_atomic_operations_are_passes_of_their_own_instruction():
    """During an atomic operation the crossbar still holds the slot of the last half that passed."""
    signals, watch = pipeline()
    watch.changes(
        signals.changes(
            watch,
            (1, "begun", 1), (1, "slot", 2), (1, "pc", 0x48), (2, "slot", 3), (2, "pc", 0x50), (3, "begun", 0),
            (4, "half", 2), (4, "pending", 1), (6, "pending", 0),
            (8, "shared", 1), (8, "atomic", 1), (8, "operation", 3), (11, "shared", 0),
        )
    )  # fmt: skip
    watch.finish(20)
    assert dict(watch.passes) == {0x48: 2, 0x50: 3} and not watch.conflicts


def test_the_next_instruction_in_a_slot_begins_anew():
    signals, watch = pipeline()
    changes = []
    for begin, pc in ((2, 8), (12, 16)):
        changes += [
            (begin, "begun", 1), (begin, "slot", 3), (begin, "pc", pc),
            (begin + 1, "begun", 0), (begin + 2, "pending", 1), (begin + 2, "half", 3), (begin + 5, "pending", 0),
        ]  # fmt: skip
    watch.changes(signals.changes(watch, *changes))
    watch.finish(30)
    assert dict(watch.passes) == {8: 3, 16: 3} and not watch.conflicts


def test_a_serial_unit_has_one_instruction_and_no_conflicts():
    signals = Signals(begun=Signal(), pc=Signal(16), line=Signal(), shared=Signal())
    unit = fake(
        dispatch=fake(valid=signals.begun, payload=fake(pc=signals.pc)),
        events=fake(line=signals.line, shared=signals.shared),
    )
    watch = SerialWatch(unit, TINY)
    watch.changes(
        signals.changes(
            watch,
            (1, "line", 1), (2, "line", 0),
            (3, "begun", 1), (3, "pc", 0x10), (4, "begun", 0), (5, "line", 1), (8, "line", 0),
            (9, "shared", 1), (11, "shared", 0), (12, "begun", 1), (12, "pc", 0x18), (13, "begun", 0),
            (14, "line", 1),
        )
    )  # fmt: skip
    watch.finish(20)
    assert dict(watch.lines) == {0x10: 3, 0x18: 6}
    assert dict(watch.passes) == {0x10: 2, 0x18: 0} and not watch.conflicts


def test_a_pass_of_which_no_instruction_has_begun_is_of_no_place():
    signals, watch = pipeline()
    watch.changes(
        signals.changes(
            watch,
            (0, "pending", 1), (0, "half", 4), (0, "found", 1), (0, "taken", 1), (0, "of", 4),
            (2, "pending", 0), (2, "found", 0),
            (3, "begun", 1), (3, "slot", 4), (3, "pc", 0x28), (4, "begun", 0),
            (6, "pending", 1), (9, "pending", 0), (11, "pending", 1), (13, "pending", 0),
        )
    )  # fmt: skip
    watch.finish(20)
    assert dict(watch.passes) == {0x28: 5}
    assert dict(watch.lines) == {} and not watch.conflicts


def test_what_is_watched_may_be_parts_of_one_signal():
    """A struct is one signal, whose changes are those of all its fields."""
    word, line = Signal(20), Signal()
    unit = fake(
        dispatch=fake(valid=word[19], payload=fake(pc=word[3:19])),
        events=fake(line=line, shared=word[0]),
    )
    watch = SerialWatch(unit, TINY)
    assert [id(each) for each in watch.signals] == [id(word), id(line)]
    watch.changes(
        [
            (1, 0, 1 << 19 | 0x8018 << 3), (2, 0, 0), (3, 0, 0b111), (7, 0, 0), (8, 1, 1), (10, 1, 0),
            (10, 0, 1 << 19 | 0x0028 << 3), (11, 0, 1),
        ]
    )  # fmt: skip
    watch.finish(16)
    assert dict(watch.passes) == {0x8018: 4, 0x28: 5}
    assert watch.lines[0x8018] == 2 and watch.lines[0x28] == 0


def test_an_instruction_has_cost_nothing_before_it_is_counted():
    cost = Cost(8, "NOP")
    assert (cost.issues, cost.threads, cost.latency, cost.ended) == (0, 0, 0, 0)
    assert (cost.lines, cost.passes, cost.conflicts) == (0, 0, 0)
    assert (cost.cycles, dict(cost.waits)) == (0, {})


def profile_of(issued, spans, params=TINY):
    """Returns a profile of these instructions and spans."""
    made = Profile(params)
    ends = []
    made._memory = fake(finish=ends.append, lines={}, passes={}, conflicts={})
    for counted in ("lines", "passes", "conflicts"):
        setattr(
            made._memory,
            counted,
            {one.pc: {"lines": 3, "passes": 5, "conflicts": 1}[counted] for one in issued},
        )
    made.timeline._reader = fake(finish=ends.append)
    made.timeline.executed, made.timeline.spans = list(issued), list(spans)
    made.finish(100, 90)
    assert ends == [100, 100]  # of the events, and of the memory unit
    return made


def one(cycle, pc, end=None, active=0xFF, warp=0):
    return IssuedInstruction(warp, cycle, pc, NOP, InstructionKind.NOTHING.value, active, end)


def test_waits_before_an_issue_are_of_the_next_instruction_or_of_the_last():
    """A warp is selected two cycles before its issue is reported: the wait ends there."""
    made = profile_of(
        [one(12, 8, 20), one(32, 16), one(52, 8, 54, active=1)],
        [
            Span(0, 0, 10, WaitReason.FETCH),
            Span(0, 10, 11, WaitReason.READY),
            Span(0, 11, 20, WaitReason.STALL),
            Span(0, 20, 30, WaitReason.SCOREBOARD),
            Span(0, 30, 31, WaitReason.READY),
            Span(0, 31, 50, WaitReason.FLOW),
            Span(0, 50, 60, WaitReason.READY),
            Span(0, 60, 65, WaitReason.DRAIN),
        ],
    )
    assert dict(made.costs[8].waits) == {
        WaitReason.FETCH: 10,
        WaitReason.READY: 1 + 10,
        WaitReason.STALL: 9,
        WaitReason.DRAIN: 5,
    }
    assert dict(made.costs[16].waits) == {
        WaitReason.SCOREBOARD: 10,
        WaitReason.READY: 1,
        WaitReason.FLOW: 19,
    }
    assert (made.costs[8].issues, made.costs[8].threads) == (2, 9)
    assert (made.costs[8].latency, made.costs[8].ended) == (8 + 2, 2)
    assert (made.costs[16].latency, made.costs[16].ended) == (0, 0)
    assert [cost.pc for cost in made.hottest] == [8, 16]
    assert [cost.cycles for cost in made.hottest] == [35, 30]
    assert (made.costs[8].lines, made.costs[8].passes, made.costs[8].conflicts) == (3, 5, 1)
    assert (made.timeline.cycles, made.timeline.grid_cycles) == (100, 90)


def test_a_span_over_several_issues_is_divided_among_them():
    made = profile_of([one(12, 8), one(22, 16), one(32, 24)], [Span(0, 0, 40, WaitReason.READY)])
    assert [made.costs[pc].waits[WaitReason.READY] for pc in (8, 16, 24)] == [11, 10, 10 + 9]


def test_warps_without_an_instruction_cost_nothing_and_each_has_its_own():
    made = profile_of(
        [one(12, 8, warp=1)], [Span(0, 0, 50, WaitReason.FETCH), Span(1, 0, 5, WaitReason.FETCH)]
    )
    assert made.costs[8].cycles == 5


def test_a_serial_machine_reports_an_issue_at_once_and_drains_after_it():
    made = profile_of(
        [one(12, 8), one(32, 16)],
        [
            Span(0, 0, 13, WaitReason.READY),
            Span(0, 13, 30, WaitReason.DRAIN),
            Span(0, 30, 33, WaitReason.READY),
        ],
        PRESETS["least"],
    )
    assert dict(made.costs[8].waits) == {WaitReason.READY: 13, WaitReason.DRAIN: 17}
    assert dict(made.costs[16].waits) == {WaitReason.READY: 3}


def test_a_ready_warp_is_not_selected_in_cycles_without_an_issue():
    assert Cost(8, "", issues=4, waits=Counter({WaitReason.READY: 7})).not_selected == 3
    assert Cost(8, "", issues=4, waits=Counter({WaitReason.STALL: 7})).not_selected == 0


# Timeline


def timeline(*events):
    """Returns a timeline of events, each a cycle, a kind and fields."""
    made = Timeline(TINY)
    for cycle, what, fields in events:
        made._take(RetirementEvent(cycle, what, fields))
    return made


def issued(warp, sequence, pc, kind=InstructionKind.LANES):
    return {"warp": warp, "sequence": sequence, "pc": pc, "word": NOP, "kind": kind.value}


def test_an_instruction_ends_with_its_completion_or_its_flow_result():
    made = timeline(
        (0, "launched", {"warp": 0}),
        (0, "launched", {"warp": 1}),
        (1, "flow", {"warp": 0, "active": 0xF}),
        (2, "flow", {"warp": 1, "active": 0xFF}),
        (3, "issued", issued(0, 0, 8)),
        (4, "issued", issued(1, 0, 8, InstructionKind.FLOW)),
        (5, "issued", issued(0, 1, 16, InstructionKind.FLOW)),
        (7, "completed", {"warp": 0, "sequence": 0}),
        (8, "flow", {"warp": 0, "active": 3}),
        (9, "issued", issued(0, 2, 24)),
        (11, "flow", {"warp": 1, "active": 0}),
        (12, "completed", {"warp": 1, "sequence": 7}),
    )
    assert [(each.warp, each.cycle, each.pc, each.active, each.end) for each in made.executed] == [
        (0, 3, 8, 0xF, 7),
        (1, 4, 8, 0xFF, 11),
        (0, 5, 16, 0xF, 8),
        (0, 9, 24, 3, None),
    ]
    assert made.executed[0].text == "NOP"


def test_an_instruction_before_any_flow_result_has_no_known_threads():
    made = timeline((0, "launched", {"warp": 0}), (1, "issued", issued(0, 0, 8)))
    assert [each.active for each in made.executed] == [0]


def test_an_error_is_of_the_open_instruction_of_its_warp_and_place():
    made = timeline(
        (1, "issued", issued(0, 0, 8)),
        (2, "issued", issued(0, 1, 16)),
        (3, "issued", issued(1, 0, 16)),
        (5, "errors", {"warp": 0, "pc": 16, "error": WarpError.MMU_FAULT.value}),
    )
    assert [each.error for each in made.executed] == [
        WarpError.NONE,
        WarpError.MMU_FAULT,
        WarpError.NONE,
    ]


def test_spans_are_what_a_warp_was_at_from_its_start_to_its_end():
    made = Timeline(TINY)
    made._reader = fake(finish=lambda cycles: None, begin=lambda take: None)
    ready, fetch, gone = (
        reason.value for reason in (WaitReason.READY, WaitReason.FETCH, WaitReason.NOT_LIVE)
    )
    made._reasons([(3, 0, fetch), (5, 1, fetch), (9, 0, ready), (9, 1, gone)])
    made._reasons([(9, 0, fetch)])
    made.finish(20, 15)
    assert made.spans == [
        Span(0, 3, 9, WaitReason.FETCH),
        Span(1, 5, 9, WaitReason.FETCH),
        Span(0, 9, 20, WaitReason.FETCH),
    ]
    assert (made.end, made.cycles, made.grid_cycles) == (20, 20, 15)
    made.restart()
    assert (made.spans, made.executed, made.cycles, made.end) == ([], [], 0, 0)


def machine_of(params, unit=None):
    """Returns the observed signals of a machine, and its parts by name."""
    reasons = [Signal(WaitReason, init=WaitReason.NOT_LIVE) for _ in range(params.warps)]
    port: Any = RetirementPort(params).create()
    return fake(core=fake(reasons=reasons, memory=unit), retired=port)


def feed(observed, *changes):
    """Sends changes of observed signals to the listeners: cycle, signal, value."""
    numbers = {
        id(signal): (number, sink)
        for signals, sink in observed
        for number, signal in enumerate(signals)
    }
    for cycle, signal, value in changes:
        if (found := numbers.get(id(signal))) is not None:
            number, sink = found
            sink([(cycle, number, value)])


def test_a_timeline_is_made_of_the_reasons_and_the_events_of_the_machine():
    """It starts in cycle 0, also after a reset of the machine."""
    sm, made = machine_of(TINY), Timeline(TINY)
    observed = made.watched(sm)
    first, second = (each.as_value() for each in sm.core.reasons)
    issue, payload = sm.retired.issued.valid, sm.retired.issued.payload.as_value()
    bits = sm.retired.issued.payload.shape().const({"warp": 1, "pc": 0x48, "word": NOP})
    for _ in range(2):
        assert (made.spans, made.executed, made.cycles, made.grid_cycles, made.end) == (
            [],
            [],
            0,
            0,
            0,
        )
        feed(
            observed,
            (0, first, WaitReason.FETCH.value),
            (0, payload, bits.as_bits()),
            (2, second, WaitReason.STALL.value),
            (3, issue, 1),
            (4, issue, 0),
            (6, second, WaitReason.NOT_LIVE.value),
            (8, second, WaitReason.READY.value),
            (8, issue, 1),  # and at the end
        )
        made.finish(9, 5)
        assert made.spans == [
            Span(1, 2, 6, WaitReason.STALL),
            Span(0, 0, 9, WaitReason.FETCH),
            Span(1, 8, 9, WaitReason.READY),
        ]
        assert [(each.warp, each.cycle, each.pc, each.end) for each in made.executed] == [
            (1, 3, 0x48, None),
            (1, 8, 0x48, None),
        ]
        assert (made.cycles, made.grid_cycles, made.end) == (9, 5, 9)
        made.restart()


@pytest.mark.parametrize("preset", ["tiny", "least"])
def test_a_profile_also_observes_the_memory_unit_of_its_kind_of_machine(preset):
    params = PRESETS[preset]
    signals, unit = pipeline_unit()
    unit.dispatch = fake(valid=signals.begun, payload=fake(pc=signals.pc))
    unit.events = fake(line=signals.found, shared=signals.shared)
    made, sm = Profile(params), machine_of(params, unit)
    observed = made.watched(sm)
    payload = sm.retired.issued.payload
    feed(
        observed,
        (0, sm.core.reasons[0].as_value(), WaitReason.FETCH.value),
        (1, signals.pc, 0x48),
        (1, signals.begun, 1),
        (2, signals.begun, 0),
        (3, payload.as_value(), payload.shape().const({"pc": 0x48, "word": NOP}).as_bits()),
        (3, sm.retired.issued.valid, 1),
        (4, sm.retired.issued.valid, 0),
        *((5, signal, 1) for signal in (signals.shared, signals.pending, signals.conflict)),
        (6, signals.conflict, 0),
        *((7, signal, 0) for signal in (signals.shared, signals.pending)),
    )
    made.finish(20, 20)
    (cost,) = made.costs.values()
    assert (cost.pc, cost.text, cost.issues, cost.cycles) == (0x48, "NOP", 1, 20)
    assert (cost.passes, cost.conflicts) == (2, 0 if params.serial else 1)


# The view of a machine in waveforms


class Named:
    """A fake part of a machine: the names of its parts begin with its own name."""

    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        return Named(f"{self.path}.{name}")

    def __getitem__(self, number):
        return Named(f"{self.path}[{number}]")


def view_of(warps, *, serial=False):
    """Returns the waveform view of a machine with this number of warps."""
    core: Any = object.__new__(SerialCore) if serial else fake()
    core.reasons = [Named(f"reasons[{warp}]") for warp in range(warps)]
    for name in (
        "retired", "flow", "stack", "trap", "trap_state", "stack_events", "diverged", "launch", "unit_memory",
        "stack_memory", "fetch_memory", "waiting",
    ):  # fmt: skip
        setattr(core, name, Named(name))
    sm = fake(
        core=core,
        **{name: Named(name) for name in ("distributor", "arbiter", "registers", "interrupt")},
    )
    return traces.machine_traces(fake(sm=sm))


def shown(text, **values):
    """Returns the text for these values of signals, by name with ``_`` for dots and brackets; all
    others are 0.
    """
    numbers = {re.sub(r"\W+", "_", each.path).strip("_"): 0 for each in text.signals}
    assert values.keys() <= numbers.keys()
    return text.decode(*(numbers | values).values())


def test_a_view_has_all_warps_of_which_four_are_open_at_first():
    for warps, open_warps in ((1, 1), (2, 2), (4, 4), (6, 4)):
        view = view_of(warps)
        names = [f"warp{warp}" for warp in range(warps)]
        assert [name for name in view.traces if name.startswith("warp")] == names
        assert view.expanded == ("machine", *names[:open_warps])
    assert [view.traces[f"warp{warp}"]["waits"].path for warp in range(6)] == [
        f"reasons[{warp}]" for warp in range(6)
    ]


@pytest.mark.parametrize("serial", [False, True])
def test_each_warp_of_a_view_has_the_texts_of_its_own_events(serial):
    view = view_of(3, serial=serial)
    for warp in range(3):
        texts = view.traces[f"warp{warp}"]
        for event_warp in range(3):
            issue: Any = {
                "retired_issued_valid": 1,
                "retired_issued_payload_warp": event_warp,
                "retired_issued_payload_pc": 0x48,
                "retired_issued_payload_word": NOP,
            }
            flow: Any = {
                "retired_flow_valid": 1,
                "retired_flow_payload_warp": event_warp,
                "retired_flow_payload_active": 0xF0,
            }
            push: Any = {
                "flow_stack_pushed_valid": 1,
                "flow_stack_pushed_payload_warp": event_warp,
                "flow_stack_pushed_payload_kind": TokenKind.SYNC.value,
            }
            result = "flow_stack_result" if serial else "flow_stack_result_payload"
            found = "flow_stack_request" if serial else "flow_stack_result"
            pop: Any = {
                f"{found}_{'ready' if serial else 'valid'}": 1,
                f"{found}_payload_warp": event_warp,
                f"{result}_resume": 1,
                f"{result}_kind": TokenKind.DIVERGE.value,
            }
            own = event_warp == warp
            assert shown(texts["instruction"], **issue) == ("0048 NOP" if own else None)
            assert shown(texts["active"], **flow) == ("000000f0" if own else None)
            assert shown(texts["token"], **push) == ("+SYNC" if own else None)
            assert shown(texts["token"], **pop) == ("-DIVERGE" if own else None)
            commit: Any = {
                "stack_committed_valid": 1,
                "stack_committed_payload_warp": event_warp,
                "stack_committed_payload_last": 4,
            }
            if own:
                assert shown(texts["depth"]) == "0"
                assert shown(texts["depth"], **commit) == "5"
            else:
                assert shown(texts["depth"], **commit) == ("5" if event_warp > warp else "0")
        assert shown(texts["trap"], **{f"trap_inside_{warp}": 1}) == "in the handler"
        assert shown(texts["trap"], **{f"trap_state_paused_{warp}": 1}) == "paused"


def test_a_view_begins_at_a_trap_or_an_error_rather_than_where_a_warp_diverges_or_starts():
    marks = view_of(2).marks
    assert [mark.name for mark in marks] == ["trap", "error", "spill", "divergence", "start"]
    for mark in marks:
        assert not mark.holds([0] * len(mark.signals))
        for place in range(len(mark.signals)):  # any error
            assert mark.holds([int(place == other) for other in range(len(mark.signals))])
    assert len(marks[1].signals) == 7


def test_the_trap_of_the_machine_and_the_errors_of_warps_are_texts():
    traces_of = view_of(2).traces
    assert shown(traces_of["machine"]["trap"], trap_state_trapping=1) == "TRAPPING"
    assert shown(traces_of["machine"]["trap"], trap_state_locked_down=1) == "LOCKED_DOWN"
    reported: Any = {
        "retired_errors_memory_valid": 1,
        "retired_errors_memory_payload_warp": 1,
        "retired_errors_memory_payload_pc": 0x68,
        "retired_errors_memory_payload_error": WarpError.MMU_FAULT.value,
    }
    assert shown(traces_of["machine"]["error"], **reported) == "warp 1: 0068 MMU_FAULT"
    error: Any = {"retired_flow_payload_error": WarpError.STACK_ERROR.value}
    assert shown(traces_of["flow"]["error"], retired_flow_valid=1, **error) == "STACK_ERROR"
    assert shown(traces_of["flow"]["error"], **error) == ""


# Texts in waveforms


def test_the_text_of_an_instruction_is_that_of_the_warp_that_issues():
    decode = traces._instruction(2)
    kinds = InstructionKind
    assert decode(1, 2, 0x48, NOP, kinds.NOTHING.value) == "0048 NOP"
    assert decode(0, 2, 0x48, NOP, kinds.NOTHING.value) is None
    assert decode(1, 1, 0x48, NOP, kinds.NOTHING.value) is None
    assert decode(1, 2, 0x48, NOP, kinds.ENTER.value) == "enters the trap"
    assert decode(1, 2, 0x48, NOP, kinds.LEAVE.value) == "leaves the trap"


def test_the_text_of_threads_is_what_a_flow_result_says():
    decode = traces._active(1)
    assert decode(1, 1, 0xFF, 0) == "000000ff"
    assert decode(1, 1, 0xFF, 1) == "ended"
    assert decode(0, 1, 0xFF, 0) is None and decode(1, 0, 0xFF, 0) is None


def test_the_text_of_a_token_is_what_was_pushed_or_popped():
    decode, sync, call = traces._token(1), TokenKind.SYNC.value, TokenKind.RETURN.value
    assert decode(1, 1, call, 0, 0, 0, 0) == "+RETURN"
    assert decode(0, 0, 0, 1, 1, 1, sync) == "-SYNC"
    assert decode(1, 1, call, 1, 1, 1, sync) == "-SYNC"
    assert decode(1, 1, call, 1, 1, 0, sync) == "+RETURN"
    assert decode(1, 1, call, 1, 0, 1, sync) == "+RETURN"
    for nothing in (
        (0, 1, call, 0, 1, 1, sync),
        (1, 0, call, 0, 1, 1, sync),
        (1, 0, call, 1, 0, 1, sync),
    ):
        assert decode(*nothing) is None


def test_the_depth_follows_pushes_and_commits_of_its_warp():
    depth = traces.StackDepth(1)
    calls = [
        ((1, 1, 0, 0, 0), "1"),
        ((1, 1, 0, 0, 0), "2"),
        ((1, 0, 0, 0, 0), "2"),
        ((0, 1, 1, 0, 9), "2"),
        ((0, 0, 1, 1, 5), "6"),
        ((0, 1, 0, 1, 5), "6"),
        ((0, 0, 1, 1, (1 << DEPTH_BITS) - 1), "0"),
        ((1, 1, 1, 1, 3), "5"),
    ]
    assert [depth(*arguments) for arguments, _ in calls] == [text for _, text in calls]


def test_the_text_of_an_error_stays_until_its_trap_is_over():
    nothing, fault = (0, 1, 0x68, 0x17), (1, 1, 0x68, WarpError.MMU_FAULT.value)
    other = (1, 2, 0x1000, WarpError.OOR_ADDR.value)
    decode, text = traces._Error(), "warp 1: 0068 MMU_FAULT"
    calls = [
        ((0, *nothing, *nothing), None),
        ((0, *fault, *nothing), text),
        ((0, *nothing, *nothing), None),
        ((1, *nothing, *nothing), None),
        ((1, *nothing, *other), "warp 2: 1000 OOR_ADDR"),
        ((1, *fault, *other), f"{text}, warp 2: 1000 OOR_ADDR"),
        ((0, *nothing, *nothing), ""),
        ((0, *nothing, *nothing), None),
        ((1, *nothing, *nothing), None),
        ((0, *nothing, *fault), text),
    ]
    assert [decode(*arguments) for arguments, _ in calls] == [shown for _, shown in calls]


def test_the_texts_of_traps():
    assert [traces._trap(*of) for of in ((0, 0), (1, 0), (0, 1), (1, 1))] == [
        "outside",
        "in the handler",
        "paused",
        "paused",
    ]
    assert [traces._machine_trap(*of) for of in ((0, 0), (1, 0), (0, 1), (1, 1))] == [
        "RUNNING",
        "TRAPPING",
        "LOCKED_DOWN",
        "LOCKED_DOWN",
    ]


# Events


def reader():
    """Returns a reader of events, and the index of each signal by the names of event and field."""
    port: Any = RetirementPort(TINY).create()
    made = EventReader(port)
    numbers = {id(signal): number for number, signal in enumerate(made.signals)}
    return made, port, lambda event: numbers[id(event.valid)]


def test_an_event_happens_in_each_cycle_in_which_it_is_valid():
    made, port, number_of = reader()
    found = []
    made.begin(found.append)
    number = number_of(port.withdrawn)
    made.changes([(3, number, 1), (3, number + 1, 1), (5, number + 1, 0), (6, number, 0)])
    made.finish(9)
    assert [(event.cycle, event.member, dict(event.fields), event.source) for event in found] == [
        (3, "withdrawn", {"warp": 1}, ""),
        (4, "withdrawn", {"warp": 1}, ""),
        (5, "withdrawn", {"warp": 0}, ""),
    ]
    made.changes([(9, number, 1)])
    made.finish(11)
    assert [event.cycle for event in found[3:]] == [9, 10]
    made.begin(found.append)
    made.finish(20)
    assert len(found) == 5  # no event is valid at the start


def test_fields_of_structs_are_read_by_their_places():
    made, port, number_of = reader()
    found = []
    made.begin(found.append)
    launched, flow = number_of(port.launched), number_of(port.flow)
    bits = port.launched.payload.shape().const(
        {"warp": 1, "number": 1, "cta_warps": 2, "index": {"x": 5, "y": 6, "z": 7}}
    )
    active = port.flow.payload.shape().const(
        {"warp": 1, "pc": 0x48, "active": 0xF0, "terminated": 1}
    )
    made.changes(
        [
            (2, launched + 1, bits.as_bits()), (2, launched, 1), (3, launched, 0),
            (3, flow + 1, active.as_bits()), (3, flow, 1), (4, flow, 0),
        ]
    )  # fmt: skip
    made.finish(6)
    first, second = found
    assert (first.cycle, first.member, second.cycle, second.member) == (2, "launched", 3, "flow")
    assert first.fields["index"] == {"x": 5, "y": 6, "z": 7}
    assert (first.fields["warp"], first.fields["number"], first.fields["cta_warps"]) == (1, 1, 2)
    assert [second.fields[name] for name in ("pc", "active", "terminated")] == [0x48, 0xF0, 1]


def test_completions_and_errors_name_their_source():
    made, port, number_of = reader()
    found = []
    made.begin(found.append)
    sources = ("issue", "lanes", "memory", "conversion", "barrier", "trap")
    changes = []
    for cycle, source in enumerate(sources):
        number = number_of(getattr(port.completed, source))
        changes += [(cycle, number, 1), (cycle + 1, number, 0)]
    made.changes(sorted(changes))
    made.finish(10)
    assert [(event.member, event.source) for event in found] == [
        ("completed", each) for each in sources
    ]


# Instructions of the hardware


def instruction(kind=InstructionKind.LANES):
    return HardwareInstruction(0, 0, 8, NOP, kind)


def written(beat, lanes, **fields):
    return {
        "beat": beat, "lanes": lanes, "register": 255, "values": 0, "predicates": 0, "flags": 0,
        "conditional": 0, "conditions": 0, **fields,
    }  # fmt: skip


def test_beats_of_a_register_come_together():
    made = instruction()
    made.write(written(1, 0b0101, register=4, values=7 | 8 << 32 | 9 << 64 | 10 << 96), 4)
    made.write(written(0, 0b1000, register=4, values=3 << 96 | 1), 4)
    made.write(written(0, 0b1111, values=5), 4)  # RZ
    mask, values = made.registers[4]
    assert mask == 0b0101_1000 and made.registers.keys() == {4}
    assert [of_thread(values, thread) for thread in range(8)] == [0, 0, 0, 3, 7, 0, 9, 0]
    made.write(written(1, 0b0001, register=4, values=1), 4)
    assert [of_thread(made.registers[4][1], thread) for thread in range(3, 8)] == [3, 1, 0, 9, 0]


def test_predicates_and_conditions_are_those_of_the_lanes():
    made = instruction()
    flags = (
        0b0000100 | 0b0000001 << 7 | 0b0000101 << 21
    )  # P2 of lane 0, P0 of lane 1, both of lane 3
    made.write(
        written(2, 0b1111, predicates=0b101, flags=flags, conditional=1, conditions=0x8421), 4
    )
    made.write(written(0, 0b0011), 4)
    assert made.predicates == [(0, 0xF00, 0b1010 << 8), (2, 0xF00, 0b1001 << 8)]
    assert made.conditions == [(0xF00, 0x8421 << 32)]


def test_a_flow_result_completes_all_but_what_is_read():
    fields = {"active": 6, "codes": 5 << 3 | 1 << 93, "pc": 0x48, "terminated": 0, "error": 0}
    for kind, error, complete in (
        (InstructionKind.FLOW, 0, True),
        (InstructionKind.FLOW_READ, 0, False),
        (InstructionKind.FLOW_READ, WarpError.STACK_ERROR.value, True),
    ):
        made = instruction(kind)
        made.take_flow({**fields, "error": error})
        assert made.complete is complete and made.error is WarpError(error)
        assert (made.next_pc, made.terminated) == (0x48, False)
        assert made.masks is not None
        assert (made.masks.active, made.masks.returned, made.masks.killed) == (6, 2, 1 << 31)
        assert made.masks.disabled == 2 | 1 << 31
    assert ThreadCode(5) is ThreadCode.RETURN and ThreadCode(1) is ThreadCode.KILLED


def test_an_error_that_is_known_stays():
    made = instruction(InstructionKind.FLOW)
    made.error = WarpError.OOR_REG
    made.take_flow({"active": 0, "codes": 0, "pc": 0, "terminated": 0, "error": 3})
    assert made.error is WarpError.OOR_REG


def test_operations_in_place_of_instructions_have_their_name():
    assert instruction(InstructionKind.ENTER).text == "(ENTER)"
    assert instruction().text == "NOP"


@pytest.mark.parametrize(
    ("threads", "width", "bits"), [(0b101, 4, 0xF0F), (1 << 31, 2, 3 << 62), (0, 8, 0)]
)
def test_a_mask_of_threads_is_spread_over_their_bits(threads, width, bits):
    assert spread(threads, width) == bits
