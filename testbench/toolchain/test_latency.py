"""Distances between instructions: from a result to its reader, between two writers, and to the next
instruction.
"""

from itertools import product

import pytest

from rtl.isa.kinds import MembarScope
from rtl.isa.table import BY_NAME
from sim.toolchain.assembly.latency import (
    Operation,
    ResourceKind,
    completion,
    operation,
    overwrite_distance,
    read_distance,
)
from testbench.words import encode, form_of

R4, P2, CC = (ResourceKind.REGISTER, 4), (ResourceKind.PREDICATE, 2), (ResourceKind.CONDITION, 0)
CARRY_MAKERS = ("IADD", "IADD32I", "IADD3", "ISCADD", "LEA")
CARRY_TAKERS = ("IADD", "IADD32I", "IADD3", "ISETP", "LEA.HI")
BETWEEN = ("IMNMX", "ISET", "LOP")
ZERO_MAKERS = ("LOP", "LOP32I")


def form(name):
    return BY_NAME[name][0]


def made(word) -> Operation:
    found = operation(word)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("producer", "consumer", "resource", "cycles"),
    [
        ("IADD", "IADD", R4, 6),
        ("IADD", "LDG", R4, 2),  # operands that are read late
        ("IADD", "I2I", R4, 2),
        ("IADD", "DADD", R4, 2),
        ("IADD", "BRX", R4, 7),
        ("IADD", "JMX", R4, 7),
        ("IADD", "BAR", R4, 13),
        ("IADD", "R2P", R4, 13),
        ("P2R", "IADD", R4, 15),  # predicates copied to a register
        ("IMUL", "IADD", R4, 15),  # products
        ("IMUL", "BRX", R4, 15),
        ("IMUL", "IADD", CC, 15),
        ("ISETP", "BRA", P2, 13),
        ("ISETP", "IADD", P2, 13),
        ("R2P", "IADD", P2, 13),
        ("LDG", "IADD", R4, 6),
    ],
)
def test_a_reader_stands_so_many_cycles_behind_what_it_reads(producer, consumer, resource, cycles):
    assert read_distance(form(producer), resource, form(consumer)) == cycles


def test_condition_codes_are_read_soon_by_sums_later_by_logic_and_last_by_branches():
    """Every pair of instructions is checked."""
    names = {*CARRY_MAKERS, *CARRY_TAKERS, *BETWEEN, *ZERO_MAKERS, "FADD", "I2I"}
    for producer, consumer in product(names, names | {"BRA"}):
        if (producer in CARRY_MAKERS and consumer in CARRY_TAKERS) or (
            producer in ZERO_MAKERS and consumer == "LOP"
        ):
            cycles = 6
        elif producer in (*CARRY_MAKERS, *BETWEEN) and consumer in (*CARRY_TAKERS, *BETWEEN):
            cycles = 7
        else:
            cycles = 13
        assert read_distance(form(producer), CC, form(consumer)) == cycles, (producer, consumer)


@pytest.mark.parametrize(
    ("name", "resource", "cycles"),
    [
        ("IADD", R4, 6),
        ("IADD", CC, 13),
        ("ISETP", P2, 13),
        ("IMUL", R4, 15),
        ("P2R", R4, 15),
        ("R2P", P2, 13),
        ("LDG", R4, 6),
    ],
)
def test_a_result_of_fixed_latency_is_written_so_many_cycles_after_its_issue(
    name, resource, cycles
):
    assert completion(form(name), resource) == cycles


@pytest.mark.parametrize(
    ("producer", "writer", "resource", "cycles"),
    [
        ("IADD", "IADD", R4, 1),
        (
            "P2R",
            "IADD",
            R4,
            10,
        ),  # its result is written in cycle 15, the other's 6 cycles after its issue
        ("IADD", "P2R", R4, 1),
        ("P2R", "LDG", R4, 15),  # the other's result may be written at any time
        ("IADD", "LDG", R4, 6),
        ("IADD", "IMUL", R4, 6),
        ("ISETP", "ISETP", P2, 1),
        ("ISETP", "R2P", P2, 1),
    ],
)
def test_a_later_result_is_written_behind_the_earlier_one(producer, writer, resource, cycles):
    later = made(form(writer).default)
    assert overwrite_distance(form(producer), resource, later) == cycles


@pytest.mark.parametrize(
    ("name", "stall"),
    [
        ("IADD", 1), ("LDG", 1), ("SSY", 1), ("PBK", 1), ("PCNT", 1), ("PRET", 1), ("PEXIT", 1),
        ("PLONGJMP", 1), ("BRA", 5), ("BRK", 5), ("SYNC", 5), ("EXIT", 5), ("CONT", 13), ("RET", 13),
        ("CAL", 13), ("BRX", 13), ("CCTL", 5), ("CCTLL", 5), ("DEPBAR", 3), ("BAR", 15), ("BPT", 13),
        ("RTT", 13),
    ],
)  # fmt: skip
def test_what_comes_next_waits_so_many_cycles(name, stall):
    assert made(form(name).default).stall == stall


@pytest.mark.parametrize(
    ("scope", "stall"), [(MembarScope.CTA, 5), (MembarScope.GL, 15), (MembarScope.SYS, 15)]
)
def test_what_comes_behind_a_fence_waits_longer_if_it_is_for_other_blocks(scope, stall):
    assert made(encode("MEMBAR", scope=scope.value)).stall == stall


def test_what_an_instruction_reads_and_writes_are_registers_predicates_and_cc():
    word = encode("IADD", "r", Rd=4, Ra=9, Rb=7, cc=1, guard=2)
    found = made(word)
    assert found.form is form_of(word)
    kind = ResourceKind
    assert found.reads == {(kind.REGISTER, 9), (kind.REGISTER, 7), P2}
    assert found.writes == {R4, CC} and found.touched == found.reads | found.writes
    assert found.highest_register == 9 and made(encode("NOP")).highest_register == -1
    assert operation(0) is None


@pytest.mark.parametrize(
    ("fields", "guarded"),
    [({}, False), ({"guard": 0}, True), ({"guard_not": 1}, True), ({"guard": 6}, True)],
)
def test_a_guard_or_a_test_may_keep_threads_from_an_instruction(fields, guarded):
    assert made(encode("IADD", "r", **fields)).guarded is guarded
    assert made(encode("EXIT", **fields)).guarded is guarded
    assert made(encode("EXIT", test=1)).guarded and not made(encode("EXIT")).guarded


@pytest.mark.parametrize(
    ("name", "is_variable", "reads_late", "transfers"),
    [
        ("IADD", False, False, False), ("LDG", True, True, False), ("I2I", True, True, False),
        ("DADD", True, True, False), ("IMUL", True, True, False), ("S2R", True, False, False),
        ("BRA", False, False, True), ("SSY", False, False, False), ("PRET", False, False, False),
        ("SYNC", False, False, True), ("BPT", False, False, True), ("BAR", False, False, False),
        ("GETCRSPTR", False, False, False), ("SETCRSPTR", False, False, False),
    ],
)  # fmt: skip
def test_what_a_scoreboard_announces_what_reads_late_and_what_goes_elsewhere(
    name, is_variable, reads_late, transfers
):
    found = made(form(name).default)
    assert (found.variable, found.reads_late, found.transfers) == (
        is_variable, reads_late, transfers,
    )  # fmt: skip
