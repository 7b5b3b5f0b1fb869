"""Directed cases of each flow instruction: the rows of the manual's tables, and every error."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

from rtl.isa.condition import ConditionCode
from rtl.isa.control_code import next_address
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT
from rtl.isa.tokens import (
    API_CALL_LIMIT,
    CACHED_TOKENS,
    CRS_GRANULE,
    TOKEN_BYTES,
    TRAP_RESERVE,
    TokenKind,
)
from rtl.layouts import FlowOperation
from rtl.params import WARP_THREADS
from sim.model.warp.retirement import StackToken, WarpMasks
from testbench.crs.reference import encode_token
from testbench.flow.steps import ALL, FlowStep, Start, Stream, codes_of
from testbench.handmade import encode
from testbench.instructions.condition import meanings

_IGNORED = encode("EXIT")
"""The instruction word while the trap unit moves a warp; the flow unit must ignore it."""

PC = 0x108
"""The address of an instruction without another one."""
NEXT = PC + 8
TARGET = 0x4000
HANDLER = 0x8_0000
LOW, HIGH = 0x0000_FFFF, 0xFFFF_0000
"""The lower and the upper half of a warp's threads."""
LOCAL = 512
BLOCK = 1 << 20
LEAVING = {
    "PBK": ("BRK", "broken", TokenKind.BREAK),
    "PCNT": ("CONT", "continued", TokenKind.CONTINUE),
    "PRET": ("RET", "returned", TokenKind.RETURN),
    "PEXIT": ("EXIT", "exited", TokenKind.EXIT),
    "PLONGJMP": ("LONGJMP", "longjumped", TokenKind.LONGJMP),
}
"""For each push: the instruction that unwinds to its token, the mask of the threads pending on it,
the token's kind.
"""
WRITE_BACK = encode("CCTLL", "stack")
EXIT = encode("EXIT")


class Life:
    """A sequence of flow instructions of one warp, with their expected results. Expectations that a
    step does not give are those of the step before.
    """

    _blocks = 0

    def __init__(
        self, name: str, *, granules: int = 4, threads: int = ALL, check_calls: bool = False
    ) -> None:
        Life._blocks += 1
        base = (1 << 36) + Life._blocks * BLOCK
        self.base = base
        self.stream = Stream(
            name, Start(PC, threads, base, LOCAL, granules * CRS_GRANULE, check_calls), []
        )
        self.masks = WarpMasks(active=threads, killed=ALL & ~threads)
        self.depth = 0

    def __call__(
        self,
        word,
        after=NEXT,
        *,
        error: Any = WarpError.NONE,
        pc=PC,
        depth=None,
        pushed=0,
        terminated: Any = False,
        value=None,
        kept: Any = False,
        guard=ALL,
        conditions=0,
        operand=0,
        same=ALL,
        fault: Any = WarpError.NONE,
        memory: Any = None,
        move: Any = FlowOperation.NONE,
        target=0,
        unreported: Any = WarpError.NONE,
        **masks,
    ) -> "Life":
        """Appends an instruction. ``after`` is the pc after it; thread masks that are not named do
        not change.
        """
        if masks:
            kept_masks = {name: getattr(self.masks, name) for name in WarpMasks.__slots__}
            self.masks = WarpMasks(**{**kept_masks, **masks})
        self.depth = 0 if terminated else self.depth + pushed if depth is None else depth
        if error is not WarpError.NONE and not terminated:  # a failed instruction is skipped
            after = next_address(pc) if move is FlowOperation.NONE else pc
        self.stream.steps.append(
            FlowStep(
                word,
                pc,
                after or 0,
                self.masks.active,
                codes_of(self.masks),
                self.depth,
                guard,
                conditions,
                operand,
                same,
                fault,
                terminated,
                error,
                value,
                kept,
                memory,
                move,
                target,
                unreported,
            )
        )
        return self

    def move(self, operation: FlowOperation, after: int = NEXT, **how: Any) -> "Life":
        """Appends an operation of the trap unit. Its guard and its operand fault must have no
        effect.
        """
        return self(
            _IGNORED,
            after,
            move=operation,
            guard=0,
            operand=1,
            same=0,
            fault=WarpError.OOR_ADDR,
            **how,
        )

    def enter(self, lines: int, saved: int = PC, **masks: int) -> "Life":
        """Appends an entry into the trap handler; ``lines`` is the depth of the stack after it, in
        lines.
        """
        return self.move(
            FlowOperation.ENTER_TRAP, HANDLER, pc=saved, target=HANDLER, depth=4 * lines, **masks
        )

    def refuse(self, error: WarpError, target: int = HANDLER) -> "Life":
        """Appends a refused entry, which changes nothing."""
        return self.move(FlowOperation.ENTER_TRAP, target=target, error=error)

    def push(self, name: str, to: int = TARGET, pc: int = PC, times: int = 1) -> "Life":
        """Appends ``times`` pushes of a token for the active threads."""
        for _ in range(times):
            self(_to(name, to, pc), pc + 8, pc=pc, pushed=1)
        return self

    def fail(self, word: int, error: WarpError, **inputs) -> "Life":
        """Appends an instruction that has an error and no other effect."""
        return self(word, error=error, **inputs)


def _to(name: str, to: int, pc: int = PC, **fields: int) -> int:
    """The word of an instruction with an immediate target."""
    variant = None if name == "PEXIT" else "i"
    return encode(name, variant, target=to - (0 if name in ("JMP", "JCAL") else pc + 8), **fields)


def _branches() -> Iterator[Life]:
    for name in ("BRA", "JMP"):
        yield (
            Life(f"{name}: nobody, all, some, the others")(_to(name, TARGET, guard=0), guard=0)(
                _to(name, TARGET, guard=0), TARGET
            )(_to(name, TARGET, guard=8), TARGET, guard=LOW, pushed=1, active=LOW)(
                encode("SYNC"), NEXT, active=HIGH, depth=0
            )
        )
        constant = TARGET if name == "JMP" else TARGET - NEXT
        yield Life(f"{name}: to a constant")(encode(name, "c", bank=2), TARGET, operand=constant)
        yield (
            Life(f"{name}: a constant that can't be read counts only when somebody reads it")(
                encode(name, "c", bank=2, guard=0), guard=0, fault=WarpError.INVALID_CONST_ADDR
            ).fail(
                encode(name, "c", bank=2),
                WarpError.INVALID_CONST_ADDR,
                fault=WarpError.INVALID_CONST_ADDR,
            )
        )
        yield (
            Life(f"{name}.U: does not diverge")(_to(name, TARGET, uniform=1), TARGET)(
                _to(name, TARGET, uniform=1, guard=0), guard=0
            ).fail(_to(name, TARGET, uniform=1, guard=0), WarpError.DIVERGENT, guard=LOW)
        )
        yield Life(f"{name}: between two instructions").fail(
            _to(name, TARGET + 4), WarpError.MISALIGNED_PC
        )
    yield (
        Life("BRA: out of the pcs there are")
        .fail(encode("BRA", "i", target=-0x200), WarpError.PC_WRAP)
        .fail(encode("BRA", "i", target=0x7F_FFF8), WarpError.PC_WRAP, pc=0xFFFF_FFF8 - 0x1000)(
            encode("BRA", "i", target=-NEXT), 0
        )(encode("BRA", "i", target=0x10), 0xFFFF_FFF8, pc=0xFFFF_FFE0)
    )
    for code in ConditionCode:  # each thread has different flags, as far as they are valid
        holds = {flags: is_so for flags, test, is_so in meanings() if test is code}
        threads = dict(zip(range(WARP_THREADS), cycle(sorted(holds)), strict=False))
        taken = sum(holds[flags] << thread for thread, flags in threads.items())
        yield Life(f"BRA CC.{code.name}: flags that comparisons leave")(
            _to("BRA", TARGET, test=code.value),
            TARGET if taken else NEXT,
            active=taken or ALL,
            pushed=int(taken not in (0, ALL)),
            conditions=sum(flags << 4 * thread for thread, flags in threads.items()),
        )
    yield (
        Life("BRA: guard and CC, thread by thread")(
            _to("BRA", TARGET, guard=0, test=ConditionCode.EQ.value),
            TARGET,
            guard=0xFF,
            pushed=1,
            active=0x11,
            conditions=sum(1 << 4 * thread for thread in range(0, WARP_THREADS, 4)),
        )
    )


def _indexed() -> Iterator[Life]:
    for name, base in (("BRX", NEXT), ("JMX", 0)):

        def word(base: int = base, name: str = name, **fields: int) -> int:
            return encode(name, "r", target=0x100, Ra=0, **fields)

        yield Life(f"{name}: all to one place")(word(), TARGET, operand=TARGET - 0x100 - base)
        yield (
            Life(f"{name}: several targets, one after the other")(
                word(), TARGET, operand=TARGET - 0x100 - base, same=LOW, pushed=1, active=LOW
            )(encode("SYNC"), PC, active=HIGH, depth=0)(
                word(), TARGET + 32, operand=TARGET + 32 - 0x100 - base, same=HIGH
            )
        )
        yield (
            Life(f"{name}: no matter to a launch that follows it", threads=0xFFF00)(
                EXIT, terminated=True, active=0, exited=0xFFF00
            )
        )
        yield (
            Life(f"{name}: several targets, and threads that stay")(
                word(guard=0),
                TARGET,
                operand=TARGET - 0x100 - base,
                guard=0xFFFF00,
                same=0xFFF,
                pushed=2,
                active=0xF00,
            )(encode("SYNC"), PC, active=0xFFF000, depth=1)(
                encode("SYNC"), NEXT, active=ALL & ~0xFFFF00, depth=0
            )
        )
        yield (
            Life(f"{name}: one target, and threads that stay")(
                word(guard=0),
                TARGET,
                operand=TARGET - 0x100 - base,
                guard=LOW,
                pushed=1,
                active=LOW,
            )(encode("SYNC"), NEXT, active=HIGH, depth=0)
        )
        yield Life(f"{name}: an entry of a table")(
            encode(name, "c", Ra=0, bank=2),
            TARGET,
            operand=TARGET - base,
            same=LOW,
            pushed=1,
            active=LOW,
        )
        yield Life(f"{name}: between two instructions").fail(
            word(), WarpError.MISALIGNED_PC, operand=4
        )
        full = Life(f"{name}: room for one token of two", granules=0).push(
            "SSY", times=CACHED_TOKENS - 1
        )
        exact = Life(f"{name}: room for two tokens, and two", granules=0).push(
            "SSY", times=CACHED_TOKENS - 2
        )
        yield (
            exact(
                word(guard=0),
                TARGET,
                operand=TARGET - 0x100 - base,
                guard=LOW,
                same=0xFF,
                pushed=2,
                active=0xFF,
            )(encode("SYNC"), PC, active=0xFF00, depth=CACHED_TOKENS - 1)(
                encode("SYNC"), NEXT, active=HIGH, depth=CACHED_TOKENS - 2
            )
        )
        yield (
            full.fail(
                word(guard=0),
                WarpError.STACK_OVERFLOW,
                operand=TARGET - 0x100 - base,
                guard=LOW,
                same=0xFF,
            )(word(guard=0), TARGET, operand=TARGET - 0x100 - base, guard=LOW, pushed=1, active=LOW)
        )
    yield Life("BRX: below the first pc").fail(
        encode("BRX", "r", target=0, Ra=0), WarpError.PC_WRAP, operand=0x1_0000_0000 - NEXT - 8
    )
    yield Life("JMX: beyond the last pc").fail(
        encode("JMX", "r", target=8, Ra=0), WarpError.PC_WRAP, operand=0xFFFF_FFF8
    )


def _calls() -> Iterator[Life]:
    for name in ("CAL", "JCAL"):
        yield (
            Life(f"{name}: there and back")(_to(name, TARGET), TARGET, pushed=1)(
                encode("GETCRSPTR", Rd=1), value=1 << 23 | 4
            )(encode("RET", guard=0), guard=LOW, active=HIGH, returned=LOW)(
                encode("RET"), NEXT, active=ALL, returned=0, depth=0
            )(encode("GETCRSPTR", Rd=1), value=0)
        )
        yield (
            Life(f"{name}.NOINC: does not count")(_to(name, TARGET, counted=0), TARGET, pushed=1)(
                encode("GETCRSPTR", Rd=1), value=4
            )(encode("RET"), NEXT, depth=0)(encode("GETCRSPTR", Rd=1), value=0)
        )
        yield Life(f"{name}: between two instructions").fail(
            _to(name, TARGET + 1), WarpError.MISALIGNED_PC
        )
        limited = Life(f"{name}: the limit of calls", check_calls=True, granules=8)
        for _ in range(API_CALL_LIMIT):
            limited(_to(name, TARGET), TARGET, pushed=1)
        limited.fail(_to(name, TARGET), WarpError.API_STACK_ERROR)
        limited(_to(name, TARGET, counted=0), TARGET, pushed=1)
        # A counted PRET sets the kill bit at the limit, and clears it below the limit.
        limited(_to("BRA", TARGET, limited=1), TARGET)
        limited(_to("PRET", TARGET))
        limited(
            encode("GETCRSPTR", Rd=1), value=1 << 31 | API_CALL_LIMIT << 23 | API_CALL_LIMIT + 4
        )
        limited(_to("BRA", TARGET, limited=1))(_to("JMP", TARGET, limited=1))
        limited(encode("BRX", "r", target=0, Ra=0, limited=1))(_to("BRA", TARGET), TARGET)
        limited(encode("RET"), NEXT, depth=API_CALL_LIMIT)(
            encode("RET"), NEXT, depth=API_CALL_LIMIT - 1
        )
        limited(_to("BRA", TARGET, limited=1))
        limited(_to("PRET", TARGET), pushed=1)
        yield limited(_to("BRA", TARGET, limited=1), TARGET)
    free = Life("CAL: no limit unless the launch asks for it", granules=8)
    for _ in range(API_CALL_LIMIT + 2):
        free(_to("CAL", TARGET), TARGET, pushed=1)
    yield free(encode("GETCRSPTR", Rd=1), value=(API_CALL_LIMIT + 2) << 23 | API_CALL_LIMIT + 4)


def _leaving() -> Iterator[Life]:
    for push, (leave, mask, kind) in LEAVING.items():
        word = encode(leave)
        yield (
            Life(f"{push}: its threads go on when all have left").push(push)(
                encode(leave, guard=0), guard=0
            )(encode(leave, guard=0), guard=LOW, active=HIGH, **{mask: LOW})(
                word, TARGET, active=ALL, depth=0, **{mask: 0}
            )
        )
        yield (
            Life(f"{leave}: over tokens whose threads have all left")
            .push(push)
            .push("SSY", TARGET + 64)(
                _to("BRA", TARGET + 128, guard=0), TARGET + 128, guard=LOW, pushed=1, active=LOW
            )(word, NEXT, active=HIGH, depth=2, **{mask: LOW})(
                word, TARGET, active=ALL, depth=0, **{mask: 0}
            )
        )
        yield (
            Life(f"{push}: a thread that has synchronised past it")
            .push(push)(encode("SYNC", guard=0), guard=1, active=ALL & ~1)
            .fail(word, WarpError.STACK_ERROR)
        )
        yield (
            Life(f"{push}: killed threads do not come back").push(push)(
                encode("KIL", guard=0), guard=LOW, active=HIGH, killed=LOW
            )(word, TARGET, depth=0)
        )
        yield (
            Life(f"{push}: to where no instruction starts")
            .push(push, TARGET + 2)
            .fail(word, WarpError.MISALIGNED_PC)
        )
        stored = encode_token(StackToken(kind, TARGET, ALL, push == "PRET")) + bytes(
            3 * TOKEN_BYTES
        )
        yield Life(f"{push}: the token's bytes").push(push)(WRITE_BACK, memory=stored)
    yield (
        Life("SSY, SYNC: all wait for each other").push("SSY")(
            _to("BRA", TARGET + 64, guard=0), TARGET + 64, guard=LOW, pushed=1, active=LOW
        )(encode("SYNC"), NEXT, active=HIGH, depth=1)(encode("SYNC"), TARGET, active=ALL, depth=0)
    )
    yield (
        Life("SYNC: those that wait under SYNC, without those that left")
        .push("SSY")
        .push("PBK", TARGET + 32)(encode("BRK", guard=0), guard=1, active=ALL & ~1, broken=1)(
            encode("BRK"), TARGET + 32, active=ALL, broken=0, depth=1
        )(encode("EXIT", guard=0), guard=6, active=ALL & ~6, exited=6)(
            encode("SYNC"), TARGET, depth=0
        )
    )
    deep = Life("BRK: across many lines", granules=8).push("PBK").push("SSY", TARGET + 64, times=30)
    yield deep(encode("BRK"), TARGET, depth=0)


def _ends() -> Iterator[Life]:
    yield (
        Life("EXIT: the warp ends with its last thread")(
            encode("EXIT", guard=0), guard=LOW, active=HIGH, exited=LOW
        )(EXIT, terminated=True, active=0, exited=ALL)
    )
    yield (
        Life("EXIT: of a warp that is not full", threads=0xFFF)(
            EXIT, terminated=True, active=0, exited=0xFFF
        )
    )
    yield Life("KIL: the warp ends with its last thread")(
        encode("KIL"), terminated=True, active=0, killed=ALL
    )
    yield (
        Life("EXIT.KEEPREFCOUNT: only if a thread exits")(
            encode("EXIT", keep_reference=1, guard=0), guard=0
        )(encode("EXIT", keep_reference=1, guard=0), guard=1, active=ALL & ~1, exited=1, kept=True)(
            encode("EXIT", keep_reference=1), terminated=True, active=0, exited=ALL, kept=True
        )
    )
    yield (
        Life("EXIT: tokens that are left belong to nobody")
        .push("SSY")
        .push("PBK")
        .push("PRET")
        .push("PEXIT", TARGET)(EXIT, TARGET, depth=3)(EXIT, terminated=True, active=0, exited=ALL)
    )
    yield Life("RET: from nothing")(
        encode("RET"), terminated=True, error=WarpError.RET_EMPTY_STACK_ERROR, active=0, exited=ALL
    )
    for name in ("BRK", "CONT", "LONGJMP", "SYNC"):
        yield Life(f"{name}: to nothing").fail(encode(name), WarpError.STACK_ERROR)
    yield (
        Life("EXIT: while another waits for a token that is not there")(
            encode("BRK", guard=0), guard=1, active=ALL & ~1, broken=1
        ).fail(EXIT, WarpError.STACK_ERROR)
    )


def _quads() -> Iterator[Life]:
    yield (
        Life("SAM, RAM: all threads for a while")(
            _to("BRA", TARGET, guard=0), TARGET, guard=0xF, pushed=1, active=0xF
        )(encode("SAM"), pushed=1, active=ALL)(encode("RAM"), depth=1, active=0xF)(
            encode("SYNC"), NEXT, depth=0, active=ALL & ~0xF
        )
    )
    yield (
        Life("RAM: without those that ended in between", threads=0xFFFF)(
            _to("BRA", TARGET, guard=0), TARGET, guard=0xF, pushed=1, active=0xF
        )(encode("SAM"), pushed=1, active=0xFFFF)(
            encode("EXIT", guard=0), guard=3, active=0xFFFC, exited=3
        )(encode("RAM"), depth=1, active=0xC)
    )
    yield (
        Life("RAM: without its token")
        .fail(encode("RAM"), WarpError.STACK_ERROR)
        .push("SSY")
        .fail(encode("RAM"), WarpError.STACK_ERROR)
    )
    yield (
        Life("RAM: nobody lives to go on")(
            _to("BRA", TARGET, guard=0), TARGET, guard=0xF, pushed=1, active=0xF
        )(encode("SAM"), pushed=1, active=ALL)(
            encode("KIL", guard=0), guard=0xF, active=ALL & ~0xF, killed=0xF
        ).fail(encode("RAM"), WarpError.STACK_ERROR)
    )
    yield (
        Life("SAM, SAM, RAM, RAM: who waits for BREAK waits for it then").push("PBK")(
            encode("BRK", guard=0), guard=1, active=ALL & ~1, broken=1
        )(encode("SAM"), pushed=1, active=ALL)(encode("SAM"), pushed=1)(encode("RAM"), depth=2)(
            encode("RAM"), depth=1, active=ALL & ~1
        )(encode("BRK"), TARGET, depth=0, active=ALL, broken=0)
    )
    yield (
        Life("SYNC: QUAD is not for an unwind")(encode("SAM"), pushed=1).fail(
            encode("SYNC"), WarpError.STACK_ERROR
        )(encode("RAM"), depth=0)
    )


def _pointers() -> Iterator[Life]:
    for tokens in (0, 1, 3, 4, 5, 15, 16, 17):
        life = Life(f"GETCRSPTR, SETCRSPTR: {tokens} tokens").push("SSY", times=tokens)
        lines = -(-tokens // 4) * 4
        stored = encode_token(StackToken(TokenKind.SYNC, TARGET, ALL)) * tokens + bytes(
            TOKEN_BYTES * (lines - tokens)
        )
        life(encode("GETCRSPTR", Rd=1), value=lines)(WRITE_BACK, memory=stored)
        life(encode("SETCRSPTR", Ra=1), operand=lines, depth=lines)
        life(encode("GETCRSPTR", Rd=1), value=lines)
        if tokens:  # above the holes
            life(encode("SYNC"), TARGET, depth=tokens - 1)
        yield life
    limit = 4 * CRS_GRANULE // TOKEN_BYTES - TRAP_RESERVE
    for asked in (limit - 1, limit, limit + 1, 0x1_FFFF):
        yield (
            Life(f"SETCRSPTR: {asked} tokens where {limit} may be")(
                encode("SETCRSPTR", Ra=1), operand=1 << 31 | 3 << 23 | asked, depth=limit
            )(encode("GETCRSPTR", Rd=1), value=1 << 31 | 3 << 23 | limit).fail(
                _to("SSY", TARGET), WarpError.STACK_OVERFLOW
            )
        )
    yield (
        Life("SETCRSPTR: without memory", granules=0).push("SSY")(
            encode("SETCRSPTR", Ra=1), operand=5 << 23 | 8, error=WarpError.STACK_ERROR, depth=0
        )(encode("GETCRSPTR", Rd=1), value=5 << 23)
    )
    for granules in (0, 1, 2):
        room = granules * CRS_GRANULE // TOKEN_BYTES - TRAP_RESERVE if granules else CACHED_TOKENS
        life = Life(f"SSY: {granules} granules hold {room} tokens", granules=granules).push(
            "SSY", times=room
        )
        life.fail(_to("SSY", TARGET), WarpError.STACK_OVERFLOW)
        life.fail(_to("CAL", TARGET), WarpError.STACK_OVERFLOW)
        life.fail(encode("SAM"), WarpError.STACK_OVERFLOW)
        life.fail(_to("BRA", TARGET, guard=0), WarpError.STACK_OVERFLOW, guard=LOW)
        for depth in reversed(range(room)):
            life(encode("SYNC"), TARGET, depth=depth)
        yield life
    moved = Life("GETLMEMBASE, SETLMEMBASE: the warp's block")
    yield (
        moved(encode("GETLMEMBASE", Rd=1), value=moved.base // CRS_GRANULE)(
            encode("SETLMEMBASE", Ra=1), operand=0x1234567
        )(encode("GETLMEMBASE", Rd=1), value=0x1234567)
    )
    lost = Life("CCTLL.CRS.WBALL, SYNC: memory that is not there").push("SSY")
    lost(encode("SETLMEMBASE", Ra=1), operand=0x1234567)
    lost(encode("CCTLL", "stack", guard=0), guard=0)
    lost(encode("SETCRSPTR", Ra=1), operand=20, depth=20)
    yield lost.fail(encode("SYNC"), WarpError.MMU_FAULT).fail(encode("BRK"), WarpError.MMU_FAULT)
    for name in ("SSY", "PBK", "PCNT", "PRET", "PLONGJMP"):
        yield (
            Life(f"{name}: to a constant")(
                encode(name, "c", bank=2), operand=TARGET - NEXT, pushed=1
            )
            .fail(
                encode(name, "c", bank=2),
                WarpError.MISALIGNED_IMMC_ADDR,
                fault=WarpError.MISALIGNED_IMMC_ADDR,
            )
            .fail(encode(name, "c", bank=2), WarpError.PC_WRAP, operand=0x8000_0000)
        )
    for name in ("CAL", "JCAL"):
        yield Life(f"{name}: to a constant")(
            encode(name, "c", bank=2),
            TARGET,
            operand=TARGET - (NEXT if name == "CAL" else 0),
            pushed=1,
        )


def _scattered(name: str) -> Life:
    """A warp with a thread in every mask, and four tokens on the stack."""
    life = Life(name, threads=ALL & ~(1 << 31))
    for push, thread in (("PBK", 0), ("PCNT", 1), ("PRET", 2), ("PLONGJMP", 3)):
        leaves, mask, _ = LEAVING[push]
        life.push(push)(
            encode(leaves, guard=0),
            guard=1 << thread,
            **{mask: 1 << thread},
            active=life.masks.active & ~(1 << thread),
        )
    active = life.masks.active
    life(encode("KIL", guard=0), guard=1 << 4, killed=1 << 31 | 1 << 4, active=active & ~(1 << 4))
    return life(encode("EXIT", guard=0), guard=1 << 5, exited=1 << 5, active=active & ~(3 << 4))


def _traps() -> Iterator[Life]:
    saved = 0x7008
    for tokens in range(5):
        life = _scattered(f"ENTER_TRAP: {tokens + 4} tokens on the stack").push("SSY", times=tokens)
        before, depth = life.masks, life.depth
        lines = -(-depth // 4) + 1
        life.enter(
            lines,
            saved,
            active=ALL & ~(1 << 31 | 3 << 4),
            broken=0,
            continued=0,
            returned=0,
            longjumped=0,
        )
        life(encode("GETCRSPTR", Rd=1), value=1 << 23 | 4 * lines)
        stored = [
            StackToken(LEAVING[name][2], TARGET, ALL >> 1 & -1 << index, name == "PRET")
            for index, name in enumerate(("PBK", "PCNT", "PRET", "PLONGJMP"))
        ]
        stored += [StackToken(TokenKind.SYNC, TARGET, before.active)] * tokens
        stored += [StackToken(TokenKind.NONE, 0, 0)] * (-depth % 4)
        stored += [
            StackToken(TokenKind.TRAP, saved | -depth % 4, before.active),
            StackToken(TokenKind.MASKS, 2, 1),
            StackToken(TokenKind.MASKS, 8, 4),
            StackToken(TokenKind.MASKS, 1 << 31 | 1 << 4, 1 << 5),
        ]
        life(WRITE_BACK, memory=b"".join(map(encode_token, stored)))
        life.push("SSY")(
            _to("BRA", TARGET, guard=0), TARGET, guard=LOW, pushed=1, active=LOW & ~0x30
        )
        life(encode("EXIT", guard=0), guard=7, exited=1 << 5 | 7, active=LOW & ~0x37)
        masks = {name: getattr(before, name) for name in WarpMasks.__slots__}
        life.move(FlowOperation.RESTORE, saved, depth=depth, **masks)
        yield life(encode("GETCRSPTR", Rd=1), value=1 << 23 | 4 * lines - 4)
    scattered = _scattered("ENTER_TRAP, RESTORE: between SAM and RAM who waits is active")
    before, live = scattered.masks, ALL & ~(1 << 31 | 3 << 4)
    waiting = {
        name: getattr(before, name) for name in ("broken", "continued", "returned", "longjumped")
    }
    scattered(encode("SAM"), pushed=1, active=live).enter(
        3, active=live, **dict.fromkeys(waiting, 0)
    )
    scattered(encode("SAM"), pushed=1).move(FlowOperation.RESTORE, PC, depth=5, **waiting)
    scattered(encode("RAM"), depth=4, active=before.active)(encode("SYNC", guard=0), guard=0)
    for depth, (leaves, name) in zip(
        range(3, -1, -1),
        (("LONGJMP", "longjumped"), ("RET", "returned"), ("CONT", "continued"), ("BRK", "broken")),
        strict=True,
    ):
        scattered(
            encode(leaves),
            TARGET,
            depth=depth,
            active=scattered.masks.active | waiting[name],
            **{name: 0},
        )
    yield scattered
    yield (
        _scattered("LEAVE_TRAP: masks and stack stay, and the frame is in the way")
        .enter(2, active=ALL & ~(1 << 31 | 3 << 4), broken=0, continued=0, returned=0, longjumped=0)
        .move(FlowOperation.LEAVE_TRAP, 0x70F8, pc=0x70F8, target=1)
        .fail(encode("SYNC"), WarpError.STACK_ERROR)
    )
    yield (
        _scattered("BRANCH: all active threads are moved").move(
            FlowOperation.BRANCH, TARGET, target=TARGET
        )
    )
    for granules in (0, 4):
        yield (
            Life(f"TERMINATE: {granules} granules", granules=granules)
            .push("PEXIT")
            .enter(2)
            .push("SSY")
            .move(FlowOperation.TERMINATE, terminated=True, active=0, exited=ALL)
        )
    for tokens in (0, 11, 12, 13, 16):
        life = Life(f"ENTER_TRAP: {tokens} tokens where no more than 16 may be", granules=0).push(
            "SSY", times=tokens
        )
        if tokens > CACHED_TOKENS - 4:
            yield life.refuse(WarpError.STACK_OVERFLOW)
            yield (
                Life(f"ENTER_TRAP: refused above {tokens} tokens, which are left then", granules=0)
                .push("SSY", times=tokens)
                .refuse(WarpError.STACK_OVERFLOW)(encode("SYNC"), TARGET, depth=tokens - 1)
            )
        else:
            yield life.enter(-(-tokens // 4) + 1).move(FlowOperation.RESTORE, PC, depth=tokens)
    full = Life("ENTER_TRAP: as many tokens as user mode may have", granules=1).push(
        "SSY", times=TRAP_RESERVE
    )
    full.fail(_to("SSY", TARGET), WarpError.STACK_OVERFLOW).enter(5)
    full.push("SSY", times=TRAP_RESERVE - 4)
    full.fail(_to("SSY", TARGET), WarpError.STACK_OVERFLOW)
    full.move(FlowOperation.RESTORE, PC, depth=TRAP_RESERVE)
    yield full.fail(_to("SSY", TARGET), WarpError.STACK_OVERFLOW).enter(5)
    yield (
        Life("ENTER_TRAP: the reserve was used up", granules=1)
        .enter(1)(WRITE_BACK)(encode("SETCRSPTR", Ra=1), operand=32, depth=32)
        .move(FlowOperation.LEAVE_TRAP, PC)
        .refuse(WarpError.STACK_OVERFLOW)(encode("SETCRSPTR", Ra=1), operand=4, depth=4)
        .move(FlowOperation.RESTORE, PC, depth=0)
    )
    yield (
        Life("ENTER_TRAP: no instruction begins where the handler is said to be")
        .push("SSY")
        .refuse(WarpError.MISALIGNED_PC, HANDLER + 4)(encode("SYNC"), TARGET, depth=0)
    )
    yield (
        Life("RESTORE: no frame")
        .push("SSY")
        .move(FlowOperation.RESTORE, error=WarpError.STACK_ERROR)(encode("SYNC"), TARGET, depth=0)
    )
    yield (
        Life("RESTORE: to what is behind the instruction in whose place it is")
        .enter(1, NEXT)
        .move(FlowOperation.RESTORE, NEXT, depth=0)
    )
    yield (
        Life("RESTORE: no instruction begins where the frame says")
        .enter(1, PC + 4)
        .move(FlowOperation.RESTORE, error=WarpError.MISALIGNED_PC)
    )
    yield _lost("ENTER_TRAP, RESTORE: memory that is not there")


def _lost(name: str) -> Life:
    """A warp whose topmost tokens are at an address without memory."""
    life = (
        Life(name)
        .push("PBK")(encode("BRK", guard=0), guard=1, broken=1, active=ALL & ~1)
        .push("SSY", times=41)
    )
    life(WRITE_BACK)(encode("SETLMEMBASE", Ra=1), operand=0x1234567)
    life.fail(encode("BRK"), WarpError.MMU_FAULT).refuse(WarpError.MMU_FAULT)
    return life.move(FlowOperation.RESTORE, error=WarpError.MMU_FAULT)


def directed() -> Iterator[Stream]:
    """All cases with every error reported."""
    for cases in (_branches, _indexed, _calls, _leaving, _ends, _quads, _pointers, _traps):
        for life in cases():
            yield life.stream


def unreported() -> Iterator[Stream]:
    """Cases with no error reported: a failed instruction has no effect."""
    yield (
        Life("unreported: branches go on behind")(
            _to("BRA", TARGET + 4), unreported=WarpError.MISALIGNED_PC
        )(_to("BRA", TARGET, uniform=1, guard=0), guard=LOW, unreported=WarpError.DIVERGENT)(
            _to("CAL", TARGET + 4), unreported=WarpError.MISALIGNED_PC
        )(encode("BRA", "i", target=-0x200), unreported=WarpError.PC_WRAP)
    ).stream
    empty: dict[str, Any] = {"unreported": WarpError.STACK_ERROR}
    yield (
        Life("unreported: nothing to wait for")(encode("SYNC"), **empty)(
            encode("BRK", guard=PT), **empty
        )(encode("RAM"), **empty)
    ).stream
    full = Life("unreported: no room", granules=0).push("SSY", times=CACHED_TOKENS)
    none: dict[str, Any] = {"unreported": WarpError.STACK_OVERFLOW}
    yield (
        full(_to("SSY", TARGET), **none)(_to("CAL", TARGET), **none)
        .refuse(WarpError.STACK_OVERFLOW)
        .stream
    )
    yield Life("unreported: no handler").refuse(WarpError.MISALIGNED_PC, HANDLER + 4).stream
    yield (
        Life("unreported: no frame")
        .enter(1)
        .move(FlowOperation.RESTORE, PC, depth=0)
        .move(FlowOperation.RESTORE, PC)
        .stream
    )
    yield (
        Life("unreported: no frame in memory either")
        .push("SSY", times=2 * CACHED_TOKENS)
        .move(FlowOperation.RESTORE, PC)
        .stream
    )
    yield Life("unreported: RET from nothing ends the warp all the same")(
        encode("RET"), terminated=True, active=0, exited=ALL
    ).stream
    yield (
        Life("unreported: SETCRSPTR without memory", granules=0)
        .push("SSY")(encode("SETCRSPTR", Ra=1), operand=4, depth=0, **empty)
        .stream
    )
