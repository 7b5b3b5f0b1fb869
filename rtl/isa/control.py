"""Control flow, traps, barriers, and other instructions that concern the warp rather than its
threads' data."""

from dataclasses import replace

from .condition import ConditionCode
from .fields import CC_TEST, TARGET, A, D, X, bits, choice, define, flag
from .kinds import (
    BarrierMode,
    BarrierRead,
    BarrierReduction,
    BreakpointMode,
    ReturnFromTrapMode,
    VoteMode,
    texts,
)
from .special_registers import SPECIAL_REGISTER_TEXTS
from .syntax import (
    RZ,
    Access,
    Choice,
    Constant,
    Form,
    Immediate,
    Pipe,
    Predicate,
    Register,
    ScoreboardSet,
    Target,
)

__all__ = ["CONTROL"]

_OPCODE = 0xFFF0 << 48
_FROM_CONSTANT = 1 << 5
_BANK = {"offset": bits(20, 16, signed=True), "bank": bits(36, 5)}
_INDEX = replace(A, reuse=None)
_LIMITED = flag("limited", 6, ".LMT")
_UNIFORM = flag("uniform", 7, ".U")
_COUNTED = choice("counted", bits(6, 1), {1: "", 0: ".NOINC"})
_COUNTED_DEFAULT = 1 << 6


def _branch(name: str, opcode: int, absolute: bool = False) -> list[Form]:
    """A branch: to an address in the instruction, or to one that a constant holds."""
    target = Target("target", relative=False) if absolute else TARGET
    fields = {"target": bits(20, 32)} if absolute else {}
    where = {"i": target, "c": Constant()}
    return [
        define(
            name,
            opcode << 48 | (_FROM_CONSTANT if variant == "c" else 0),
            _OPCODE | _FROM_CONSTANT,
            Pipe.FLOW,
            {"test": CC_TEST, "target": operand},
            (_UNIFORM, _LIMITED),
            variant=variant,
            fields=_BANK if variant == "c" else fields,
        )
        for variant, operand in where.items()
    ]


def _indexed_branch(name: str, opcode: int, relative: bool) -> list[Form]:
    """A branch to a register's value plus an offset, or to an entry of a table in a constant
    bank."""
    target = bits(20, 24 if relative else 32, signed=True)
    return [
        define(
            name,
            opcode << 48,
            _OPCODE | _FROM_CONSTANT,
            Pipe.FLOW,
            {"test": CC_TEST, "target": Target("target", relative, index="Ra")},
            (_LIMITED,),
            variant="r",
            fields={"target": target, "Ra": bits(8, 8)},
        ),
        define(
            name,
            opcode << 48 | _FROM_CONSTANT,
            _OPCODE | _FROM_CONSTANT,
            Pipe.FLOW,
            {"test": CC_TEST, "target": Constant(index="Ra")},
            (_LIMITED,),
            variant="c",
            fields=_BANK,
        ),
    ]


def _push(name: str, opcode: int, *, counted: bool = False, absolute: bool = False,
          constant: bool = True) -> list[Form]:
    """A push of a token, or a call: no guard, no test."""
    target = Target("target", relative=False) if absolute else TARGET
    fields = {"target": bits(20, 32)} if absolute else {}
    modifiers = (_COUNTED,) if counted else ()
    default = _COUNTED_DEFAULT if counted else 0
    mask = _OPCODE | (_FROM_CONSTANT if constant else 0)
    forms = [
        define(
            name,
            opcode << 48,
            mask,
            Pipe.FLOW,
            {"target": target},
            modifiers,
            variant="i" if constant else "",
            guarded=False,
            fields=fields,
            default=default,
        )
    ]
    if constant:
        forms.append(
            define(
                name,
                opcode << 48 | _FROM_CONSTANT,
                mask,
                Pipe.FLOW,
                {"target": Constant()},
                modifiers,
                variant="c",
                guarded=False,
                fields=_BANK,
                default=default,
            )
        )
    return forms


def _leave(name: str, opcode: int, mask: int = 0xFFF0, modifiers=()) -> Form:  # noqa: ANN001
    """An instruction that takes threads out of the active mask."""
    return define(name, opcode << 48, mask << 48, Pipe.FLOW, {"test": CC_TEST}, modifiers)


FLOW: list[Form] = [
    *_indexed_branch("JMX", 0xE200, relative=False),
    *_branch("JMP", 0xE210, absolute=True),
    *_push("JCAL", 0xE220, counted=True, absolute=True),
    *_push("PEXIT", 0xE230, constant=False),
    *_branch("BRA", 0xE240),
    *_indexed_branch("BRX", 0xE250, relative=True),
    *_push("CAL", 0xE260, counted=True),
    *_push("PRET", 0xE270, counted=True),
    *_push("PLONGJMP", 0xE280),
    *_push("SSY", 0xE290),
    *_push("PBK", 0xE2A0),
    *_push("PCNT", 0xE2B0),
    _leave("EXIT", 0xE300, modifiers=(flag("keep_reference", 5, ".KEEPREFCOUNT"),)),
    _leave("LONGJMP", 0xE310),
    _leave("RET", 0xE320),
    _leave("KIL", 0xE330),
    _leave("BRK", 0xE340),
    _leave("CONT", 0xE350),
    _leave("SYNC", 0xF0F8, 0xFFF8),
    define("SAM", 0xE370 << 48, _OPCODE, Pipe.FLOW, guarded=False),
    define("RAM", 0xE380 << 48, _OPCODE, Pipe.FLOW, guarded=False),
    define("GETCRSPTR", 0xE2C0 << 48, _OPCODE, Pipe.FLOW, {"d": D}, guarded=False),
    define("GETLMEMBASE", 0xE2D0 << 48, _OPCODE, Pipe.FLOW, {"d": D}, guarded=False),
    define("SETCRSPTR", 0xE2E0 << 48, _OPCODE, Pipe.FLOW, {"a": _INDEX}, guarded=False),
    define("SETLMEMBASE", 0xE2F0 << 48, _OPCODE, Pipe.FLOW, {"a": _INDEX}, guarded=False),
]

_IDE_DEFAULT = 0xC10

TRAPS: list[Form] = [
    define(
        "RTT",
        0xE360 << 48,
        _OPCODE,
        Pipe.TRAP,
        {},
        (choice("mode", bits(0, 2), texts(ReturnFromTrapMode, POPCRS=""), {".POPCRS": 0}),),
        guarded=False,
    ),
    define(
        "IDE",
        0xE390 << 48,
        _OPCODE,
        Pipe.TRAP,
        {"imm16": Immediate("imm16", 16, default=_IDE_DEFAULT)},
        (choice("disable", bits(5, 1), {0: ".EN", 1: ""}, {".DI": 1, ".DIS": 1}),),
        guarded=False,
        fields={"imm16": bits(20, 16)},
    ),
    define(
        "BPT",
        0xE3A0 << 48,
        _OPCODE,
        Pipe.TRAP,
        {"reason": Immediate("reason", 20, default=0)},
        (
            choice(
                "mode",
                bits(6, 3),
                texts(BreakpointMode, PAUSE_QUIET=".???6") | {7: ".???7"},
                {".PAUSE_QUIET": BreakpointMode.PAUSE_QUIET.value},
            ),
        ),
        guarded=False,
        fields={"reason": bits(20, 20)},
    ),
]

_BAR = 0xF0A8 << 48
_BAR_MASK = 0xFFF8 << 48
_BARRIER_IMMEDIATE = 1 << 44
_COUNT_IMMEDIATE = 1 << 43
_ALL_WARPS = 0
_REDUCTION = choice("reduction", bits(35, 2), texts(BarrierReduction))


def _bar(modes: dict[int, str], reduces: bool, count_spelled: bool,
         predicate_spelled: bool = False) -> list[Form]:
    """BAR with its barrier in a register or the instruction, and its thread count likewise.

    A count of 0, which means all warps, is only spelled where ``count_spelled``. BAR that does not
    reduce has a predicate all the same; it is spelled where ``predicate_spelled`` and must be PT
    elsewhere.
    """
    mode = choice("mode", bits(32, 3), modes)
    mode_matches = [(code << 32, 7 << 32) for code in modes]
    forms = []
    for match, mask in mode_matches:
        for from_register in (0, 1):
            for count_from_register in (0, 1):
                barrier_kind = 0 if from_register else _BARRIER_IMMEDIATE
                count_kind = 0 if count_from_register else _COUNT_IMMEDIATE
                kinds = barrier_kind | count_kind
                barrier = _INDEX if from_register else Immediate("barrier", 8)
                count_default = None if count_spelled else _ALL_WARPS
                count_immediate = Immediate("count", 12, default=count_default)
                count = Register("Rb") if count_from_register else count_immediate
                predicate = Predicate("Pc", negate="Pc_not", optional=not predicate_spelled)
                source = {"x": X if reduces else predicate}
                forms.append(
                    define(
                        "BAR",
                        _BAR | match | kinds,
                        _BAR_MASK | mask | _BARRIER_IMMEDIATE | _COUNT_IMMEDIATE,
                        Pipe.BARRIER,
                        {"a": barrier, "b": count} | source,
                        (mode, *((_REDUCTION,) if reduces else ())),
                        variant=("r" if from_register else "i")
                        + ("r" if count_from_register else "i"),
                        fields={"barrier": bits(8, 8), "count": bits(20, 12)},
                        illegal=()
                        if reduces or predicate_spelled
                        else (lambda values: values["Pc"] != 7 or values["Pc_not"] != 0,),
                    )
                )
    return forms


_B2R_MODES = {
    BarrierRead.BARRIER.value: "",
    BarrierRead.RESULT.value: ".RESULT",
    BarrierRead.WARP.value: ".WARP",
}
_READS_ALL = RZ << 8


def _b2r(mode: BarrierRead, operands: dict, mask: int, match: int) -> Form:
    code = mode.value
    return define(
        "B2R",
        0xF0B8 << 48 | code << 32 | match,
        0xFFF8 << 48 | 3 << 32 | mask,
        Pipe.SYSTEM,
        operands,
        (choice("mode", bits(32, 2), {code: _B2R_MODES[code]}),),
        variant=mode.name.lower(),
        fields={"Pd": bits(45, 3), "barrier": bits(8, 8)},
    )


BARRIERS: list[Form] = [
    *_bar({BarrierMode.SYNC.value: ".SYNC"}, reduces=False, count_spelled=False),
    *_bar({BarrierMode.ARV.value: ".ARV"}, reduces=False, count_spelled=True),
    *_bar({BarrierMode.RED.value: ".RED"}, reduces=True, count_spelled=False),
    *_bar(
        {BarrierMode.SCAN.value: ".SCAN"}, reduces=False, count_spelled=True, predicate_spelled=True
    ),
    define(
        "BAR",
        _BAR | BarrierMode.SYNCALL.value << 32 | 7 << 39 | RZ << 20,
        _BAR_MASK | 7 << 32 | 15 << 39 | RZ << 20,
        Pipe.BARRIER,
        {},
        (choice("mode", bits(32, 3), {BarrierMode.SYNCALL.value: ".SYNCALL"}),),
        variant="all",
        guarded=False,
        default=_COUNT_IMMEDIATE | 7 << 16,
    ),
    _b2r(BarrierRead.BARRIER, {"d": D, "a": Immediate("barrier", 8)}, 0, 0),
    _b2r(
        BarrierRead.RESULT,
        {"d": D, "p": Predicate("Pd", Access.WRITE, optional=True)},
        _READS_ALL,
        _READS_ALL,
    ),
    _b2r(BarrierRead.WARP, {"d": D}, _READS_ALL, _READS_ALL),
    define(
        "R2B",
        0xF0C0 << 48,
        0xFFF8 << 48,
        Pipe.BARRIER,
        {"a": Immediate("barrier", 4), "b": Register("Rb")},
        (choice("mode", bits(32, 2), _B2R_MODES),),
        fields={"barrier": bits(28, 4)},
    ),
]

_SPECIAL = Choice("special", SPECIAL_REGISTER_TEXTS)
_SPECIAL_FIELD = {"special": bits(20, 8)}
_SCOREBOARD = Choice("scoreboard", {number: f"SB{number}" for number in range(6)})

SYSTEM: list[Form] = [
    define(
        "S2R",
        0xF0C8 << 48,
        0xFFF8 << 48,
        Pipe.SYSTEM,
        {"d": D, "a": _SPECIAL},
        fields=_SPECIAL_FIELD,
    ),
    define(
        "CS2R", 0x50C8 << 48, 0xFFF8 << 48, Pipe.ALU, {"d": D, "a": _SPECIAL}, fields=_SPECIAL_FIELD
    ),
    define("LEPC", 0x50D0 << 48, 0xFFF8 << 48, Pipe.ALU, {"d": D}),
    define(
        "NOP",
        0x50B0 << 48,
        0xFFF8 << 48,
        Pipe.ISSUE,
        {"test": CC_TEST, "imm16": Immediate("imm16", 16, default=0)},
        (flag("trigger", 13, ".TRIG"),),
        fields={"test": bits(8, 5), "imm16": bits(20, 16)},
        default=ConditionCode.T.value << 8,
    ),
    define(
        "VOTE",
        0x50D8 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"d": replace(D, optional=True), "p": Predicate("Pd", Access.WRITE), "x": X},
        (choice("mode", bits(48, 2), texts(VoteMode)),),
        fields={"Pd": bits(45, 3)},
    ),
    define(
        "VOTE.VTG",
        0x50E0 << 48,
        0xFFF8 << 48,
        Pipe.ALU,
        {"imm28": Immediate("imm28", 28)},
        (choice("mode", bits(48, 2), {0: ".R", 1: ".A", 2: ".RA"}),),
        fields={"imm28": bits(20, 28)},
    ),
    define(
        "DEPBAR",
        0xF0F0 << 48,
        0xFFF8 << 48 | 1 << 29,
        Pipe.ISSUE,
        {"wait": ScoreboardSet("wait")},
        variant="zero",
        fields={"wait": bits(0, 6)},
    ),
    define(
        "DEPBAR",
        0xF0F0 << 48 | 1 << 29,
        0xFFF8 << 48 | 1 << 29,
        Pipe.ISSUE,
        {"scoreboard": _SCOREBOARD, "count": Immediate("count", 6), "wait": ScoreboardSet("wait")},
        (flag("at_most", 29, ".LE"),),
        variant="at_most",
        fields={"scoreboard": bits(26, 3), "count": bits(20, 6), "wait": bits(0, 6)},
    ),
]

CONTROL: list[Form] = [*FLOW, *TRAPS, *BARRIERS, *SYSTEM]
"""All forms of this module."""
