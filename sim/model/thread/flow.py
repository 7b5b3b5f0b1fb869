"""Branches, calls and return points.

Each thread has its own stack. SSY, PBK, PCNT, PRET, PEXIT and PLONGJMP push a return point; CAL and
JCAL push their next instruction. SYNC, BRK, CONT, RET, EXIT and LONGJMP pop to the innermost return
point of their kind and jump to it. Without one, EXIT ends the thread, and so does RET
(RET_EMPTY_STACK_ERROR is unreported); the others fault. SYNC requires its return point on top of
the stack: if a thread synchronised past another return point, its neighbours would wait for it
there without end.

Register targets are relative to the same base as constant ones (see Instruction.target): for BRX
the next instruction, for JMX the program base, also where a constant bank holds them (ours).
"""

from rtl.isa.control_code import INSTRUCTION_BYTES
from rtl.isa.errors import WarpError
from rtl.isa.syntax import RZ
from rtl.isa.tokens import API_CALL_LIMIT
from sim.model.threads import ENDED

from .decode import Result, ThreadInstruction, result_of, semantics
from .integers import FLAGS
from .state import EntryKind, FaultError, Operation, Thread

__all__: list[str] = []


def _under_test(i: ThreadInstruction, operation: Operation) -> Operation:
    """Returns the operation, executed only where the instruction's test of CC holds."""
    truth = i.condition_test()
    if truth == (1 << FLAGS + 1) - 1:
        return operation

    def tested(thread: Thread) -> int | None:
        return operation(thread) if truth >> thread.condition & 1 else None

    return tested


@semantics("BRA", "JMP")
def _branch(i: ThreadInstruction) -> Operation:
    target = i.target()

    def limited(thread: Thread) -> int | None:
        return None if thread.kill_branches else target

    return _under_test(i, limited if i["limited"] else lambda _: target)


@semantics("BRX", "JMX")
def _indexed_branch(i: ThreadInstruction) -> Operation:
    index, offset, program = i["Ra"], i["offset"], i.program
    base = i.pc + INSTRUCTION_BYTES if i.name == "BRX" else 0
    bank = i["bank"] if "bank" in i.form.fields else None
    table_entry = program.constant if index == RZ else program.indexed_constant

    def to_register(thread: Thread) -> int:
        return program.index_of(base + thread.values[index] + i["target"])

    def to_table_entry(thread: Thread) -> int:
        assert bank is not None
        return program.index_of(base + table_entry(bank, thread.values[index] + offset, 4))

    return _under_test(i, to_register if bank is None else to_table_entry)


def _calls(thread: Thread) -> int:
    """Returns the number of open API calls if the launch limits them, else 0."""
    return sum(counts for _, _, counts in thread.stack) if thread.cta.launch.check_api_calls else 0


@semantics("CAL", "JCAL")
def _call(i: ThreadInstruction) -> Operation:
    """A counted call at the limit of API calls is not taken."""
    target, behind, counts = i.target(), i.next, bool(i["counted"])

    def operation(thread: Thread) -> int | None:
        if counts and _calls(thread) >= API_CALL_LIMIT:
            return None
        thread.stack.append((EntryKind.RETURN, behind, counts))
        return target

    return operation


_PUSHES = {
    "SSY": EntryKind.SYNC,
    "PBK": EntryKind.BREAK,
    "PCNT": EntryKind.CONTINUE,
    "PEXIT": EntryKind.EXIT,
    "PLONGJMP": EntryKind.LONGJMP,
}


@semantics(*_PUSHES)
def _push(i: ThreadInstruction) -> Operation:
    entry = (_PUSHES[i.name], i.target(), False)

    def operation(thread: Thread) -> None:
        thread.stack.append(entry)

    return operation


@semantics("PRET")
def _push_return(i: ThreadInstruction) -> Operation:
    """PRET. A counted one records whether later branches with .LMT are killed and, if so, pushes
    nothing.
    """
    target, counts = i.target(), bool(i["counted"])

    def operation(thread: Thread) -> None:
        if counts:
            thread.kill_branches = _calls(thread) >= API_CALL_LIMIT
        if not (counts and thread.kill_branches):
            thread.stack.append((EntryKind.RETURN, target, counts))

    return operation


def _unwound(thread: Thread, place: EntryKind) -> int | None:
    """Pops the stack down to and including the innermost entry of a kind; returns its target.

    Without such an entry it empties the stack and returns None.
    """
    stack = thread.stack
    while stack:
        found, target, _ = stack.pop()
        if found is place:
            return target
    return None


@semantics("SYNC")
def _synchronise(i: ThreadInstruction) -> Operation:
    def operation(thread: Thread) -> int:
        if not thread.stack or thread.stack[-1][0] is not EntryKind.SYNC:
            found = thread.stack[-1][0].name if thread.stack else "nothing"
            raise FaultError(
                WarpError.STACK_ERROR, f"SYNC finds {found} where SSY's place should be"
            )
        return thread.stack.pop()[1]

    return _under_test(i, operation)


_LEAVES = {"BRK": EntryKind.BREAK, "CONT": EntryKind.CONTINUE, "LONGJMP": EntryKind.LONGJMP}


@semantics(*_LEAVES)
def _leave(i: ThreadInstruction) -> Operation:
    place = _LEAVES[i.name]

    def operation(thread: Thread) -> int:
        target = _unwound(thread, place)
        if target is None:
            raise FaultError(WarpError.STACK_ERROR, f"{i.name} finds no place of its kind")
        return target

    return _under_test(i, operation)


@semantics("RET", "EXIT")
def _return_or_exit(i: ThreadInstruction) -> Operation:
    place = EntryKind.RETURN if i.name == "RET" else EntryKind.EXIT

    def operation(thread: Thread) -> int:
        target = _unwound(thread, place)
        return ENDED if target is None else target

    return _under_test(i, operation)


@semantics("KIL")
def _kill(i: ThreadInstruction) -> Operation:
    return _under_test(i, lambda _: ENDED)


@semantics("SAM", "RAM", "GETCRSPTR", "SETCRSPTR", "GETLMEMBASE", "SETLMEMBASE")
def _warp_state(i: ThreadInstruction) -> Operation:
    raise FaultError(
        None, f"{i.name} is about the warp's masks, stack or memory block, and here is no warp"
    )


@semantics("RTT")
def _return_from_trap(_: ThreadInstruction) -> Operation:
    raise FaultError(WarpError.ILLEGAL_INSTR_ENCODING, "RTT is for the trap handler alone")


@result_of("LEPC")
def _own_pc(i: ThreadInstruction) -> Result:
    """Returns the pc of the next instruction (ours)."""
    return lambda _: i.pc + INSTRUCTION_BYTES
