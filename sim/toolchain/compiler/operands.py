"""Constants and numbers that operations can encode as operands without a register.

An instruction has one slot for a constant or number: at most one source can use it.
"""

from .ir import ConstantWord, Global, Op, Source, Value
from .opcodes import address_field

__all__ = ["fits", "has_offset", "needs_slot", "offset_fits", "slot_takes"]


def has_offset(name: str) -> bool:
    """Whether an operation has an address with an offset."""
    return address_field(name) is not None


def offset_fits(name: str, offset: int) -> bool:
    """Whether the offset fits the operation's address."""
    field = address_field(name)
    return field is not None and offset in field.bounds


def fits(op: Op, index: int, source: Source) -> bool:
    """Whether an operation can encode this constant or number as a source."""
    if op.opcode.takes_anything:
        return True
    if not slot_takes(op, index, source):
        return False
    if index in op.shape.predicates or op.opcode.several_numbers:
        return True
    return not any(at != index and needs_slot(op, at, other) for at, other in enumerate(op.sources))


def needs_slot(op: Op, index: int, source: Source) -> bool:
    """Whether a source is a constant or number that needs the operation's only slot."""
    if isinstance(source.operand, Value) or (
        isinstance(source.operand, int) and source.number == 0
    ):
        return False
    return index not in op.shape.predicates


def slot_takes(op: Op, index: int, source: Source) -> bool:
    """Whether a constant or number can be encoded at this source, regardless of the other
    sources.
    """
    shape, code = op.shape, op.opcode
    if index in shape.grouped:
        return False
    if index in shape.predicates:
        return isinstance(source.operand, int)
    role = shape.roles.get(index)
    if isinstance(source.operand, ConstantWord):
        return role is not None and code.constant_fits(role.key)
    if isinstance(source.operand, Global):
        return op.name == "MOV"
    if source.operand == 0 and not source.inverted:
        return True
    value = source.number
    return role is not None and value is not None and code.number_fits(role.key, value)
