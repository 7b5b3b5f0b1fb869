"""Dead code elimination: removes operations whose results are not used."""

from sim.toolchain.compiler.analysis.liveness import Liveness, ending_reads
from sim.toolchain.compiler.ir import Function, Op

__all__ = ["remove_dead_code"]


def remove_dead_code(function: Function) -> bool:
    """Removes operations whose results are not used. Returns whether there were any."""
    live = Liveness(function)
    changed = False
    for block in function.blocks:
        kept: list[Op] = []
        alive = live.live_out[block]
        alive |= live.mask(ending_reads(function, block))
        carry_wanted = False
        for op, (read, written) in zip(
            reversed(block.ops), reversed(live.effects[block]), strict=True
        ):
            needed = (
                alive & written
                or not (op.opcode.needless or op.sets_carry)
                or (op.sets_carry and carry_wanted)
            )
            if not needed:
                changed = True
                continue
            if written & ~alive and op.opcode.may_drop_results:
                op.results = [
                    value if value is not None and alive & live.bit[value] else None
                    for value in op.results
                ]
                written &= alive
                changed = True
            if op.sets_carry and not carry_wanted:
                op.sets_carry = False
                changed = True
            if op.sets_carry:
                carry_wanted = False
            if op.takes_carry:
                carry_wanted = True
            kept.append(op)
            alive = alive & ~written if op.replaces else alive | written
            alive |= read
        block.ops = kept[::-1]
    return changed
