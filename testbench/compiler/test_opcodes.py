"""The operands of an opcode: which registers an instruction reads and writes, how many, and which
are predicates.
"""

import pickle

import pytest

from rtl.isa.kinds import FloatFormat
from sim.toolchain.compiler.opcodes import IntegerFormat, opcode, value_of


def roles(found):
    """Returns each role as text: its key, with a ``p`` before a predicate and the number of
    registers after several.
    """
    return " ".join(
        "p:" * role.predicate + role.key + (f"*{role.count}" if role.count > 1 else "")
        for role in found
    )


@pytest.mark.parametrize(
    ("name", "fields", "operands", "results", "sources"),
    [
        ("IADD", {}, (1, 2), "d", "a b"),
        ("IADD3", {}, (1, 3), "d", "a b c"),
        ("SEL", {}, (1, 3), "d", "a b p:x"),
        ("ISETP", {}, (2, 3), "p:p p:q", "a b p:x"),
        ("DADD", {}, (2, 4), "d*2", "a*2 b*2"),
        ("LDG", {"size": 4}, (1, 1), "d", "address"),
        ("LDG", {"size": 5}, (2, 1), "d*2", "address"),
        ("LDG", {"size": 6, "wide": 1}, (4, 2), "d*4", "address*2"),
        ("STG", {"size": 5, "wide": 1}, (0, 4), "", "address*2 b*2"),
        ("ATOM", {"wide": 1}, (1, 3), "d", "address*2 b"),
        # An address with its offset in a constant bank; a constant instead of a register
        ("LDC", {}, (1, 1), "d", "a"),
        ("ISCADD", {}, (1, 3), "d", "a b shift"),
        ("ISCADD", {"shift": 3}, (1, 2), "d", "a b"),
        # Optional operands are present if there are enough operands, the first of them first.
        ("VOTE", {}, (1, 1), "p:p", "p:x"),
        ("VOTE", {}, (2, 1), "d p:p", "p:x"),
        ("LEA", {}, (1, 2), "d", "a b"),
        ("LEA", {}, (1, 3), "d", "a b shift"),
        ("LEA", {}, (2, 3), "p:p d", "a b shift"),
        ("BAR", {}, (0, 1), "", "a"),
        ("BAR", {}, (0, 2), "", "a b"),
        ("BAR", {}, (0, 3), "", "a b p:x"),
    ],
)
def test_operands_are_those_of_the_table_in_its_order(name, fields, operands, results, sources):
    shape = opcode(name, tuple(fields.items())).shape(*operands)
    assert (roles(shape.results), roles(shape.sources)) == (results, sources)


def test_the_data_of_a_generic_store_are_behind_its_predicate():
    """In the text they precede it. Their number follows from the access size."""
    assert roles(opcode("ST", (("size", 6),)).shape(0, 6).sources) == "address p:x b*4"
    assert roles(opcode("ST", (("size", 4),)).shape(0, 2).sources) == "address b"


def test_neighbours_are_the_registers_of_one_field():
    shape = opcode("STG", (("size", 6), ("wide", 1))).shape(0, 6)
    assert shape.source_groups == [[0, 1], [2, 3, 4, 5]] and shape.grouped == set(range(6))
    assert shape.wide and [shape.roles[at].key for at in range(6)] == ["address"] * 2 + ["b"] * 4
    shape = opcode("LDG", (("size", 5),)).shape(2, 1)
    assert (shape.result_groups, shape.source_groups, shape.grouped) == ([[0, 1]], [], set())
    assert not shape.wide
    assert opcode("ISETP").shape(2, 3).predicates == {2}
    assert opcode("DADD").shape(2, 4).predicates == set()


@pytest.mark.parametrize(
    ("name", "fields", "keys"),
    [
        ("IADD", {}, {"b"}),
        ("MOV", {}, {"b", "lanes"}),
        ("FADD", {}, {"b"}),
        ("DADD", {}, {"b"}),
        # Conversions of single precision and words accept constants, all others registers.
        ("F2F", {"source": FloatFormat.F32, "destination": FloatFormat.F32}, {"b"}),
        ("F2F", {"source": FloatFormat.F64, "destination": FloatFormat.F32}, set()),
        ("F2F", {"source": FloatFormat.F32, "destination": FloatFormat.F64}, set()),
        ("I2F", {"source": IntegerFormat.S32, "destination": FloatFormat.F32}, {"b"}),
        ("I2F", {"source": IntegerFormat.S64, "destination": FloatFormat.F32}, set()),
        ("I2F", {"source": IntegerFormat.U64, "destination": FloatFormat.F32}, set()),
        ("I2F", {"source": IntegerFormat.S32, "destination": FloatFormat.F64}, set()),
        ("F2I", {"source": FloatFormat.F32, "destination": IntegerFormat.S32}, set()),
        ("LEA", {}, set()),
        ("VADD", {}, set()),
    ],
)
def test_operands_that_may_be_numbers(name, fields, keys):
    assert opcode(name, tuple(fields.items())).immediates.keys() == keys


def test_an_opcode_is_one_object_also_where_it_was_pickled():
    for code in (opcode("IADD"), opcode("SHR", (("signed", False),)), opcode("ADD64")):
        assert pickle.loads(pickle.dumps(code)) is code


def test_what_the_table_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"^LDG has no cache \.NONE$"):
        value_of("LDG", "cache", ".NONE")
    with pytest.raises(ValueError, match=r"^NOP has no form with "):
        opcode("NOP", (("signed", True),))
