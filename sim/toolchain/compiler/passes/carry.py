"""Condition code preservation: keeps PTX carries that live across other operations or branches."""

from sim.toolchain.compiler.ir import ADD, RZ, Function, Op, Source, Value, number

__all__ = ["keep_carries"]

_CLOBBERING = frozenset({"ADD64", "SETP64", "LEA", "CAL", "ICAL"})


def keep_carries(function: Function) -> None:
    """Keeps a carry in a register if its use does not directly follow its definition."""
    late = [op for block in function.blocks for op in _late(block.ops)]
    if not late:
        return
    carry = Value("carry")
    for block in function.blocks:
        ops: list[Op] = []
        for op in block.ops:
            if op in late:
                # All ones plus a carry of one sets the carry; all ones plus zero does not.
                ops.append(
                    Op(ADD, [None], [Source(carry), number(-1)], sets_carry=True, line=op.line)
                )
            ops.append(op)
            if op.sets_carry and op.name == "IADD":
                ops.append(
                    Op(ADD, [carry], [RZ, RZ], takes_carry=True, guard=op.guard, line=op.line)
                )
        block.ops = ops


def _late(ops: list[Op]) -> list[Op]:
    """Returns the operations of a block whose carry must be kept."""
    found = []
    there = False
    for op in ops:
        if op.takes_carry and not there:
            found.append(op)
        if op.sets_carry:
            there = True
        elif op.name in _CLOBBERING:
            there = False
    return found
