"""The lockstep comparison of hardware and warp model reports each wrong event at its instruction."""

from dataclasses import replace
from typing import Any

import pytest

from rtl.isa.control_code import instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.registers import SM_REGISTERS
from rtl.layouts import InstructionKind
from sim.launch import LOCAL_MEMORY
from sim.launch.memory import Memory
from sim.machine.comparison import memory_difference
from sim.machine.hardware_instructions import HardwareInstruction
from sim.machine.lockstep import Withdrawal
from sim.machine.retirement_events import RetirementEvent
from testbench.machine.recorded import Recording, followed, record

TEXT = """\
.kernel k
.shared 256
        S2R R0, SR_LANEID
        ISETP.LT.AND P1, P2, R0, 0x8, PT
        IADD R1.CC, R0, -0x10
        IADD.X R2, RZ, RZ
        SHL R3, R0, 0x2
   @P1  STS [R3], R0
        LDS R4, [R3]
        SSY meet
   @P1  SYNC
        IADD R5, R0, R0
        SYNC
meet:   EXIT
"""
RUN = record(TEXT)


def at(text, what, number=0):
    """Returns the index of the n-th event of this kind of the instruction in a line of the program."""
    line = [line.split(";")[0].strip() for line in TEXT.splitlines()[2:]].index(text)
    issued = [place for place, event in enumerate(RUN.events) if event.member == "issued"]
    issued.append(len(RUN.events))
    places = [
        place for place in range(issued[line], issued[line + 1]) if RUN.events[place].member == what
    ]
    return places[number]


def altered(place, **fields):
    """Returns the events with other fields in one of them."""
    events = list(RUN.events)
    events[place] = replace(events[place], fields={**events[place].fields, **fields})
    return events


def difference(events):
    """Returns the message of the comparison, without the stack."""
    found = followed(RUN, events).difference
    assert found is not None
    return found


def test_a_run_without_faults_is_the_same_to_its_last_instruction():
    lockstep = followed(RUN)
    assert lockstep.difference is None
    assert lockstep.compared == len(RUN.records) == 12
    assert lockstep.pending() == []
    assert lockstep.compare_memory(lockstep.machine.memory) is None


@pytest.mark.parametrize(
    ("text", "what", "number", "field", "bits", "said"),
    [
        ("IADD R1.CC, R0, -0x10", "issued", 0, "pc", 8, ("pc", "0x10", "0x18")),
        (
            "S2R R0, SR_LANEID",
            "written",
            0,
            "lanes",
            1,
            ("threads that write R0", "fffffffe", "ffffffff"),
        ),
        (
            "S2R R0, SR_LANEID",
            "written",
            7,
            "lanes",
            8,
            ("threads that write R0", "7fffffff", "ffffffff"),
        ),
        (
            "S2R R0, SR_LANEID",
            "written",
            1,
            "values",
            1 << 32 * 2 + 31,
            ("R0 of thread 6", "0x80000006", "0x00000006"),
        ),
        (
            "S2R R0, SR_LANEID",
            "written",
            3,
            "values",
            2,
            ("R0 of thread 12", "0x0000000e", "0x0000000c"),
        ),
        (
            "IADD R1.CC, R0, -0x10",
            "written",
            0,
            "conditions",
            1 << 4 * 3 + 1,
            ("CC of thread 3", "0000", "0010"),
        ),
        (
            "IADD R1.CC, R0, -0x10",
            "written",
            6,
            "conditions",
            1,
            ("CC of thread 24", "0101", "0100"),
        ),
        ("SYNC", "flow", 0, "active", 1, ("threads active", "fffffffe", "ffffffff")),
        ("SYNC", "flow", 0, "pc", 8, ("next pc", "0x70", "0x78")),
        ("SYNC", "flow", 0, "codes", 6 << 3 * 4, ("threads exited", "00000010", "00000000")),
        ("SYNC", "flow", 0, "codes", 1 << 3 * 31, ("threads killed", "80000000", "00000000")),
        ("SYNC", "flow", 0, "terminated", 1, ("the warp's end", "True", "False")),
        ("meet:   EXIT", "flow", 0, "terminated", 1, ("the warp's end", "False", "True")),
    ],
)
def test_a_wrong_event_is_a_difference_with_both_sides(text, what, number, field, bits, said):
    place = at(text, what, number)
    fields = RUN.events[place].fields
    found = difference(altered(place, **{field: fields[field] ^ bits}))
    issued = at(text, "issued")
    assert (found.description, found.hardware, found.reference) == said
    assert found.cycle == RUN.events[issued].cycle
    assert found.warp == 0
    if field != "pc" or what != "issued":
        assert found.pc == RUN.events[issued].fields["pc"]
        assert found.word == RUN.events[issued].fields["word"]


def test_a_predicate_that_differs_is_named_with_all_threads():
    place = at("ISETP.LT.AND P1, P2, R0, 0x8, PT", "written", 2)  # threads 8 to 11
    flags = RUN.events[place].fields["flags"]
    found = difference(altered(place, flags=flags ^ 1 << 7 * 3 + 2))  # P2 of the fourth lane
    assert (found.description, found.hardware, found.reference) == ("P2", "fffff700", "ffffff00")
    found = difference(altered(place, flags=flags ^ 1 << 7 * 1 + 1))
    assert (found.description, found.hardware, found.reference) == ("P1", "000002ff", "000000ff")


def test_another_word_is_a_difference_even_if_all_else_is_the_same():
    place = at("IADD R5, R0, R0", "issued")
    word = RUN.events[place].fields["word"]
    found = difference(altered(place, word=word ^ 1 << 63))
    assert found.description == "instruction word"
    assert (int(found.hardware, 16), int(found.reference, 16)) == (word ^ 1 << 63, word)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("S2R R0, SR_LANEID", ("registers written", "none", "R0")),
        ("LDS R4, [R3]", ("registers written", "none", "R4")),
    ],
)
def test_a_register_that_is_not_written_is_a_difference(text, said):
    missing = {at(text, "written", number) for number in range(8)}
    found = difference([event for place, event in enumerate(RUN.events) if place not in missing])
    assert (found.description, found.hardware, found.reference) == said


def test_a_register_that_is_written_besides_is_a_difference():
    place = at("IADD R1.CC, R0, -0x10", "written")
    extra = replace(
        RUN.events[place], fields={**RUN.events[place].fields, "register": 9, "conditional": 0}
    )
    found = difference([*RUN.events[: place + 1], extra, *RUN.events[place + 1 :]])
    assert (found.description, found.hardware, found.reference) == (
        "registers written",
        "R1 R9",
        "R1",
    )


def test_nothing_is_compared_after_the_first_difference():
    place = at("IADD R1.CC, R0, -0x10", "written")
    lockstep = followed(RUN, altered(place, values=5))
    assert lockstep.compared == 2
    first = lockstep.difference
    for event in RUN.events[-6:]:
        lockstep.take(event)
    assert lockstep.difference is first and lockstep.compared == 2


def test_a_difference_shows_the_instruction_and_its_text():
    place = at("IADD R5, R0, R0", "written", 2)  # threads 0 to 7 are pending at the other SYNC
    shown = str(difference(altered(place, values=0))).splitlines()
    issued = RUN.events[at("IADD R5, R0, R0", "issued")]
    pc, word = issued.fields["pc"], issued.fields["word"]
    assert shown[:4] == [
        f"difference    cycle {issued.cycle}, warp 0: R5 of thread 16",
        f"instruction   {pc:#06x}  {word:016x}  IADD R5, R0, R0",
        "hardware      0x00000000",
        "reference     0x00000020",
    ]
    assert shown[4:] == ["     SYNC pc=0x0078 mask=ffffffff"]  # the stack


def test_what_is_not_complete_is_pending():
    place = at("LDS R4, [R3]", "completed")
    lockstep = followed(RUN, RUN.events[:place])
    issued = RUN.events[at("LDS R4, [R3]", "issued")]
    assert lockstep.pending() == [
        f"warp 0: {issued.fields['pc']:#06x}  LDS R4, [R3], issued in cycle {issued.cycle}"
    ]
    assert lockstep.compared == 6


def test_instructions_complete_in_any_order_and_are_compared_in_theirs():
    first, second = (
        at(text, "completed") for text in ("S2R R0, SR_LANEID", "ISETP.LT.AND P1, P2, R0, 0x8, PT")
    )
    events = list(RUN.events)
    late = events.pop(first)
    events.insert(second, late)  # after the completion of the second
    lockstep = followed(RUN, events[:second])
    assert lockstep.compared == 0
    lockstep.take(events[second])
    assert lockstep.compared == 2
    assert followed(RUN, events).difference is None


PARTLY = record(
    """\
.kernel k
        S2R R0, SR_LANEID
        ISETP.LT.AND P1, PT, R0, 0x3, PT
  @!P1  IADD R1.CC, R0, -0x4
  @!P1  ISETP.LT.AND P2, PT, R0, 0x8, PT
        EXIT
"""
)


def test_flags_of_threads_that_write_none_are_0_on_both_sides():
    """Thread 3's result is negative, thread 4's is zero with a carry, thread 5's has a carry."""
    assert followed(PARTLY).difference is None
    written = [event.fields for event in PARTLY.events if event.member == "written"]
    flags = [fields for fields in written if fields["conditional"]]
    assert (flags[0]["lanes"], flags[0]["conditions"] >> 12) == (0b1000, 0b0010)
    assert (flags[1]["lanes"], flags[1]["conditions"] & 0xFF) == (0b1111, 0b0100_0101)


def test_each_instruction_is_reported_before_the_warp_model_executes_it():
    lockstep, seen = followed(RUN, []), []
    lockstep.on_instruction = lambda warp, word: seen.append(
        (warp.slot, instruction_address(warp.pc), word)
    )
    for event in RUN.events:
        lockstep.take(event)
    issued = [event.fields for event in RUN.events if event.member == "issued"]
    assert seen == [(0, fields["pc"], fields["word"]) for fields in issued]


def test_a_slot_begins_again_with_the_next_warp():
    """The flags of the next warp in a slot are initially 0."""
    assert RUN.records[1].predicates  # the first warp has left other flags
    lockstep = followed(RUN, [*RUN.events, *RUN.events])
    assert lockstep.difference is None and lockstep.compared == 2 * len(RUN.records)


def test_writes_of_no_lane_or_no_known_instruction_and_those_at_the_issue_are_no_writes():
    """In the cycle of a warp's first issue the last register may be cleared."""
    place = at("S2R R0, SR_LANEID", "written")
    event, issued = RUN.events[place], RUN.events[at("S2R R0, SR_LANEID", "issued")]
    for wrong in (
        replace(event, cycle=issued.cycle, fields={**event.fields, "register": 9}),
        replace(event, fields={**event.fields, "register": 9, "lanes": 0}),
        replace(event, fields={**event.fields, "register": 9, "sequence": 5}),
        replace(event, fields={**event.fields, "register": 9, "warp": 1}),
    ):
        lockstep = followed(RUN, [*RUN.events[:place], wrong, *RUN.events[place:]])
        assert lockstep.difference is None and lockstep.compared == len(RUN.records)
    later = replace(event, cycle=issued.cycle + 1, fields={**event.fields, "register": 9})
    assert followed(RUN, [*RUN.events[:place], later, *RUN.events[place:]]).difference


# Two warps

TWO = record(
    """\
.kernel k
.shared 256
        S2R R0, SR_TID.X
        STS [RZ], R0
        LDS R1, [RZ]
        IADD R2, R1, 0x1
        EXIT
""",
    warps=2,
)


def turns_of(recording):
    """Returns the events of each instruction, after those of the launch."""
    turns: list[list[RetirementEvent]] = []
    for event in recording.events[recording.warps :]:
        if event.member == "issued":
            turns.append([])
        turns[-1].append(event)
    return turns


def test_warps_are_compared_in_any_order_but_for_what_other_warps_observe():
    """Instructions are compared in any order unless another warp observes them.

    The first warp's instructions complete after those of the second, which were issued later: the
    second warp's comparison waits at its memory accesses.
    """
    turns = turns_of(TWO)
    assert len(turns) == 2 * 5 and [turn[0].fields["warp"] for turn in turns[:4]] == [0, 1, 0, 1]
    lockstep, compared = followed(TWO, TWO.events[:2]), []
    for first, second in zip(turns[::2], turns[1::2], strict=True):
        for event in (first[0], second[0], *second[1:]):
            lockstep.take(replace(event, cycle=event.cycle + 100))
        compared.append(lockstep.compared)
        for event in first[1:]:
            lockstep.take(replace(event, cycle=event.cycle + 100))
    assert lockstep.difference is None
    # Of the second warp S2R and IADD were compared before those of the first, STS and LDS were not, nor what followed.
    assert compared == [1, 2, 4, 7, 9]
    assert lockstep.compared == len(TWO.records) == 10


def test_what_a_warp_loads_depends_on_the_order_in_which_stores_were_executed():
    """The first warp's store executes last: the second warp loads that value, not its own."""
    turns = turns_of(TWO)
    assert [turn[0].fields["sequence"] for turn in turns[2:4]] == [1, 1]
    events = [*TWO.events[:2], *turns[0], *turns[1], *turns[3], *turns[2]]
    events += [event for turn in turns[4:] for event in turn]
    found = followed(TWO, events).difference
    assert found is not None
    assert (found.warp, found.description, found.hardware, found.reference) == (
        0,
        "R1 of thread 0",
        "0x0000003f",
        "0x0000001f",
    )


def test_the_first_instruction_of_each_warp_that_did_not_complete_is_pending():
    issued = [event for event in TWO.events if event.member == "issued"]
    lockstep = followed(TWO, [*TWO.events[:2], *issued[:4]])
    texts = [f"  S2R R0, SR_TID.X, issued in cycle {event.cycle}" for event in issued[:2]]
    assert lockstep.pending() == [f"warp {warp}: {0x8:#06x}{texts[warp]}" for warp in range(2)]
    assert lockstep.compared == 0


# Trap entry and exit, and the host's register writes


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (InstructionKind.LEAVE, ("the trap", "left", "not at RTT")),
        (InstructionKind.ENTER, None),
    ],
)
def test_a_warp_that_leaves_the_trap_without_rtt_is_a_difference(kind, said):
    launched, issued = RUN.events[0], RUN.events[1]
    lockstep = followed(RUN, [launched])
    entered = []
    lockstep.on_trap_entry = lambda warp, waited, failed: entered.append(
        (warp.slot, waited, failed)
    )
    lockstep.take(replace(issued, fields={**issued.fields, "kind": kind.value}))
    result = {"warp": 0, "pc": 0, "active": (1 << 32) - 1, "codes": 0, "terminated": 0, "error": 0}
    lockstep.take(replace(issued, cycle=9, member="flow", fields=result))
    if said is not None:
        found = lockstep.difference
        assert found is not None
        assert (found.description, found.hardware, found.reference) == said
        assert entered == [] and lockstep.moved == 0
    else:
        assert entered == [(0, False, False)]
        assert (lockstep.moved, lockstep.compared, lockstep.difference) == (1, 0, None)
        again = {**issued.fields, "kind": kind.value, "sequence": 1, "pc": 8}
        warp: Any = lockstep.machine.warps[0]
        assert warp.in_trap
        warp.trap.framed = True
        lockstep.take(replace(issued, cycle=10, fields=again))
        lockstep.take(replace(issued, cycle=12, member="flow", fields=result))
        found = lockstep.difference
        assert found is not None
        assert (found.description, found.hardware, found.reference) == (
            "the trap",
            "entered",
            "entered already",
        )
        assert len(entered) == lockstep.moved == 1


def test_what_the_host_writes_is_written_to_the_warp_model_in_its_cycle():
    lockstep = followed(RUN, RUN.events[:1])
    written = []
    lockstep.host.write = lambda register, word: written.append((register, word))
    lockstep.note_write(5, "HWW_WARP_ESR_REPORT_MASK", 3)
    lockstep.note_write(7, "DBGR_CONTROL0", (1 << 32) - 1)
    lockstep.note_write(7, "BPT_PAUSE_MASK", 1)
    lockstep.note_write(7, "LAUNCH", 1)  # the warp model has no such register
    lockstep.note_write(8, "HWW_WARP_ESR_REPORT_MASK", 4)
    event = RUN.events[1]
    lockstep.take(replace(event, cycle=5))
    assert written == []  # not before the end of the cycle
    lockstep.take(replace(event, cycle=8, fields={**event.fields, "sequence": 1}))
    run = SM_REGISTERS["DBGR_CONTROL0"].put(RUN_TRIGGER=1)
    assert written == [
        ("HWW_WARP_ESR_REPORT_MASK", 3),
        # the warp model updates the mask of running warps itself
        ("DBGR_CONTROL0", (1 << 32) - 1 & ~run),
    ]
    lockstep.catch_up()
    assert written[2:] == [("HWW_WARP_ESR_REPORT_MASK", 4)]


# Order of arrivals at barriers


def arrival(complete):
    return HardwareInstruction(0, 0, 8, 0, InstructionKind.BARRIER, complete=complete)


@pytest.mark.parametrize(
    ("entries", "own", "place"),
    [
        ([], None, 0),
        ([False], None, 0),
        ([True], None, 1),
        ([True, True], None, 2),
        ([True, True, True, False], None, 3),
        ([True, False, True], None, 1),
        ([True, "withdrawn", True, False], None, 3),
        (["withdrawn", False], None, 1),
        ([True, False, False, False], 2, 3),
        ([False, False], 0, 1),
        ([True, True, True], 0, 3),
        ([False, False, False], 2, 3),
    ],
)
def test_a_withdrawal_comes_behind_counted_arrivals_and_its_own(monkeypatch, entries, own, place):
    """``own`` is the place of the warp's own arrival, which is complete or not."""
    lockstep = followed(RUN, RUN.events[:1])
    advanced = []
    monkeypatch.setattr(lockstep, "_advance", lambda: advanced.append(1))
    order: Any = lockstep._orders["barrier"]
    for entry in entries:
        order.append(Withdrawal(1, 3) if entry == "withdrawn" else arrival(entry))
    before = list(order)
    lockstep._slots[0].waiting.append(arrival(False))
    if own is not None:
        lockstep._slots[0].waiting.append(order[own])
    lockstep.take(RetirementEvent(77, "withdrawn", {"warp": 0}))
    assert order[place] == Withdrawal(0, 77) and advanced == [1]
    del order[place]
    assert all(one is other for one, other in zip(order, before, strict=True))


def test_a_withdrawal_of_a_warp_that_does_not_wait_is_a_difference():
    lockstep = followed(RUN, RUN.events[:1])
    lockstep.take(RetirementEvent(77, "withdrawn", {"warp": 0}))
    found = lockstep.difference
    assert found is not None
    assert (found.cycle, found.warp, found.description, found.hardware) == (
        77,
        0,
        "an arrival at a barrier",
        "taken back",
    )


# CTAs


def launched(warp, number, warps, x=0):
    return RetirementEvent(
        0, "launched", {"warp": warp, "number": number, "cta_warps": warps, "index": {"x": x, "y": 2, "z": 3}}
    )  # fmt: skip


def test_a_cta_starts_when_all_its_warps_are_launched_and_their_slots_are_free():
    lockstep = followed(RUN, [])
    started = []
    machine: Any = lockstep.machine
    machine.start = lambda cta, slots: started.append((cta.index, list(slots)))
    lockstep.take(launched(1, 0, 2))
    lockstep._start()
    assert started == []
    lockstep.take(launched(0, 1, 2))
    lockstep._start()
    assert started == [((0, 2, 3), [1, 0])]
    machine.warps[0] = machine.warps[1] = object()
    lockstep.take(launched(0, 0, 1, x=1))
    lockstep._start()
    assert len(started) == 1
    machine.warps[0] = None
    lockstep._start()
    assert started[1:] == [((1, 2, 3), [0])]


# Values that depend on time

TIMED = record(
    """\
.kernel k
        S2R R0, SR_CLOCKLO
        IADD R1, R0, 0x1
        EXIT
"""
)


def with_values(recording, *values):
    """Returns the events with other writes: by instruction, one value for all threads."""
    events = []
    for event in recording.events:
        fields = dict(event.fields)
        if event.member == "written":
            fields["values"] = sum(values[fields["sequence"]] << 32 * lane for lane in range(4))
        events.append(replace(event, fields=fields))
    return events


def test_the_clock_is_what_the_hardware_read_and_all_else_follows_from_it():
    assert followed(TIMED, with_values(TIMED, 1000, 1001)).difference is None
    found = followed(TIMED, with_values(TIMED, 1000, 1002)).difference
    assert found is not None
    assert (found.description, found.hardware, found.reference) == (
        "R1 of thread 0",
        "0x000003ea",
        "0x000003e9",
    )


PARTLY_TIMED = record(
    """\
.kernel k
        S2R R0, SR_LANEID
        ISETP.LT.AND P1, PT, R0, 0x6, PT
   @P1  S2R R0, SR_CLOCKLO
        IADD R1, R0, 0x1
        EXIT
"""
)


def test_the_clock_is_followed_in_the_threads_that_read_it():
    """The hardware's threads read 1000 plus their number; threads that do not read the clock have
    their lane's number.
    """
    events, clocks = [], [1000 + thread if thread < 6 else thread for thread in range(32)]
    for event in PARTLY_TIMED.events:
        fields = dict(event.fields)
        if event.member == "written" and fields["sequence"] in (2, 3):
            more, first = fields["sequence"] == 3, 4 * fields["beat"]
            fields["values"] = sum(
                clocks[first + lane] + more << 32 * lane
                for lane in range(4)
                if fields["lanes"] >> lane & 1
            )
        events.append(replace(event, fields=fields))
    assert followed(PARTLY_TIMED, events).difference is None
    place = next(
        place
        for place, event in enumerate(events)
        if event.member == "written" and event.fields["sequence"] == 2
    )
    less = {**events[place].fields, "lanes": 0b0111}
    events[place] = replace(events[place], fields=less)
    found = followed(PARTLY_TIMED, events).difference
    assert found is not None
    assert (found.description, found.hardware, found.reference) == (
        "threads that write R0",
        "00000037",
        "0000003f",
    )


# Errors

FAILING = record(
    """\
.kernel k
        MOV32I R2, 0x10
        MOV R3, RZ
        LDG.E R4, [R2]
        EXIT
"""
)


def test_an_error_is_compared_with_its_code():
    assert FAILING.records[-1].error is WarpError.MMU_FAULT
    assert followed(FAILING).difference is None
    events = [*FAILING.events[:-1]]
    last = FAILING.events[-1]
    other = WarpError.OOR_ADDR
    events.append(replace(last, fields={**last.fields, "error": other.value}))
    found = followed(FAILING, events).difference
    assert found is not None
    assert (found.description, found.hardware, found.reference) == (
        "error",
        other.name,
        "MMU_FAULT",
    )


def test_an_error_that_the_hardware_does_not_raise_is_a_difference():
    issued = [event for event in FAILING.events if event.member == "issued"][-1]
    done = replace(
        FAILING.events[-1],
        member="completed",
        fields={"warp": 0, "sequence": issued.fields["sequence"]},
    )
    found = followed(FAILING, [*FAILING.events[:-1], done]).difference
    assert found is not None
    assert (found.description, found.hardware, found.reference) == ("error", "NONE", "MMU_FAULT")


def test_behind_an_error_a_warp_is_at_the_same_instruction_or_at_the_next():
    """Without a handler the warp stays at the instruction and returns to it."""
    failed = FAILING.events[-1].fields["pc"]
    behind = instruction_address(failed + 8)
    issued = [event for event in FAILING.events if event.member == "issued"][-1]
    result = {
        "warp": 0,
        "pc": failed,
        "active": (1 << 32) - 1,
        "codes": 0,
        "terminated": 0,
        "error": 0,
    }
    for pc, said in (
        (failed, None),
        (behind, None),
        (failed - 8, ("pc", f"{failed - 8:#x}", f"{behind:#x}")),
    ):
        lockstep, entered = followed(FAILING), []
        lockstep.on_trap_entry = lambda warp, waited, failed, to=entered: to.append(
            (warp.slot, waited, failed)
        )
        fields = {**issued.fields, "pc": pc, "kind": InstructionKind.ENTER.value, "sequence": 9}
        lockstep.take(replace(issued, cycle=100, fields=fields))
        lockstep.take(replace(issued, cycle=102, member="flow", fields=result))
        found = lockstep.difference
        assert (found and (found.description, found.hardware, found.reference)) == said
        assert entered == ([] if said else [(0, False, True)])
        assert lockstep._slots[0].failed_at == (failed if said else None)


def test_a_warp_whose_arrival_was_withdrawn_enters_the_trap_once_as_one_that_waited():
    """Of two warps one arrives at a barrier. Without a handler it stays, and arrives again."""
    lockstep = followed(Recording(".kernel k\nBAR.SYNC 0x0\nEXIT\n", [], [], warps=2), [])
    launch, waiting = lockstep.machine.launch, []
    word = launch.memory.read_number(launch.program_base + 8, 8)
    lockstep.on_trap_entry = lambda warp, waited, _failed: waiting.append((warp.slot, waited))
    for number in range(2):
        lockstep.take(launched(number, number, 2))

    def executes(sequence, place, kind, what, **fields):
        own = {"warp": 0, "sequence": sequence, "pc": place, "word": word, "kind": kind.value}
        lockstep.take(RetirementEvent(10 * sequence, "issued", own))
        lockstep.take(
            RetirementEvent(10 * sequence + 5, what, {"warp": 0, "sequence": sequence, **fields})
        )

    executes(0, 8, InstructionKind.BARRIER, "completed")
    assert lockstep.compared == 1
    lockstep.take(RetirementEvent(8, "withdrawn", {"warp": 0}))
    result = {"pc": 8, "active": (1 << 32) - 1, "codes": 0, "terminated": 0, "error": 0}
    for sequence, place in ((1, 16), (2, 8)):
        executes(sequence, place, InstructionKind.ENTER, "flow", **result)
    assert lockstep.difference is None and waiting == [(0, True), (0, False)]


def test_an_error_completes_the_oldest_instruction_at_its_place_that_has_none(monkeypatch):
    """A warp may have issued the instruction several times; errors of flow instructions are part of
    their results.
    """
    issued = RUN.events[1]
    lockstep = followed(RUN, RUN.events[:1])
    monkeypatch.setattr(lockstep, "_advance", lambda: None)
    for sequence, pc in enumerate((0x48, 0x50, 0x48, 0x50)):
        lockstep.take(replace(issued, fields={**issued.fields, "sequence": sequence, "pc": pc}))
    waiting = lockstep._slots[0].waiting

    def errors():
        return [(each.error.name, each.complete) for each in waiting]

    def error(code, source, pc=0x50):
        lockstep.take(
            RetirementEvent(50, "errors", {"warp": 0, "pc": pc, "error": code.value}, source)
        )

    none = ("NONE", False)
    error(WarpError.OOR_ADDR, "flow")
    assert errors() == [none] * 4
    error(WarpError.OOR_ADDR, "memory")
    assert errors() == [none, ("OOR_ADDR", True), none, none]
    error(WarpError.MMU_FAULT, "lanes")
    assert errors() == [none, ("OOR_ADDR", True), none, ("MMU_FAULT", True)]
    error(WarpError.OOR_REG, "lanes")
    assert errors() == [none, ("OOR_ADDR", True), none, ("MMU_FAULT", True)]


# Memory


def two_memories():
    """Returns two memories with equal content: a region of 256 bytes, and one of local memory."""
    memories = []
    for _ in range(2):
        memory = Memory()
        memory.map("a", 0x1000, 256)
        memory.map(LOCAL_MEMORY, 0x2000, 256)
        memory.map("b", 0x3000, 256)
        memory.write(0x1000, bytes(range(256)))
        memories.append(memory)
    return memories


def test_the_first_byte_of_memory_that_differs_is_named():
    ours, theirs = two_memories()
    assert memory_difference(ours, theirs) is None
    ours.write(0x1080, b"\xff")
    ours.write(0x10F0, b"\x00")
    assert memory_difference(ours, theirs) == (
        "a, byte 0x80 at 0x1080: hardware 0xff, reference 0x80"
    )
    assert memory_difference(ours, theirs, ("a",)) is None
    ours.write(0x30FF, b"\x07")
    assert memory_difference(ours, theirs, ("a",)) == (
        "b, byte 0xff at 0x30ff: hardware 0x07, reference 0x00"
    )


def test_local_memory_is_not_compared():
    ours, theirs = two_memories()
    ours.write(0x2000, b"\x01")
    assert memory_difference(ours, theirs) is None
