"""Direct branches and calls in the issue unit: the pc at which fetch continues when one issues."""

from random import Random
from typing import NamedTuple

from rtl.isa.condition import ConditionCode
from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.syntax import PT
from rtl.isa.table import find
from testbench.words import encode

__all__ = ["RETURN", "PredictedBranch", "predicted_branch", "random_flow_word"]

RETURN = encode("RET")
"""The word of a flow instruction without a target: fetch continues at the next instruction."""
_PC_LIMIT = 1 << 32
_FARTHEST = 1 << 23
"""The maximum distance of a backward relative branch, in bytes."""


class PredictedBranch(NamedTuple):
    """A branch or call after whose issue fetch continues at the target.

    Attributes:
        target: The pc of the target.
        needs_result: The warp issues its next instruction after the flow result; without it, as
            soon as that instruction is fetched.
    """

    target: int
    needs_result: bool


def predicted_branch(word: int, pc: int) -> PredictedBranch | None:
    """The prediction for a flow instruction at this pc; None if fetch continues at the next
    instruction.
    """
    form = find(word)
    if form is None or form.name not in ("BRA", "JMP", "CAL", "JCAL") or form.variant != "i":
        return None
    values = form.values(word)
    is_relative = form.name in ("BRA", "CAL")
    target = values["target"] + (pc + INSTRUCTION_BYTES if is_relative else 0)
    if form.name in ("CAL", "JCAL"):
        return PredictedBranch(target % _PC_LIMIT, needs_result=True)
    is_unguarded = (values["guard"], values["guard_not"], values["test"]) == (
        PT,
        0,
        ConditionCode.T.value,
    )
    is_backward = is_relative and values["target"] < 0
    if not is_unguarded and not is_backward:
        return None
    may_fail = target % INSTRUCTION_BYTES != 0 or not 0 <= target < _PC_LIMIT
    return PredictedBranch(
        target % _PC_LIMIT, not is_unguarded or may_fail or bool(values["limited"])
    )


def random_flow_word(random: Random, pc: int) -> int:
    """The word of a return, or of a direct branch or call, mostly to one of the first 512
    instructions.
    """
    name = random.choice(("RET", "BRA", "BRA", "BRA", "JMP", "CAL", "JCAL"))
    if name == "RET":
        return RETURN
    target = random.randrange(0, 1 << 12, INSTRUCTION_BYTES)
    if random.random() < 0.05:
        target += random.randrange(INSTRUCTION_BYTES)
    if name in ("BRA", "CAL"):
        target -= pc + INSTRUCTION_BYTES
        if random.random() < 0.05 or target < -_FARTHEST:
            target = -_FARTHEST
    fields = {"target": target}
    if name in ("BRA", "JMP"):
        guarded = random.random() < 0.4
        fields |= {
            "guard": random.randrange(PT) if guarded else PT,
            "guard_not": random.getrandbits(1) if guarded else 0,
            "test": random.choice((ConditionCode.T.value,) * 7 + (ConditionCode.EQ.value,)),
            "uniform": random.getrandbits(1),
            "limited": int(random.random() < 0.1),
        }
    return encode(name, "i", **fields)
