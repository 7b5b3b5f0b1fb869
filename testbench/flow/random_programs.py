"""Warps that execute random flow instructions in the warp model.

Each instruction is chosen when the warp reaches it, and written to the warp's pc. Any word can thus
follow any other, in every state that instructions can produce.
"""

from collections.abc import Iterator
from random import Random

import numpy as np

from rtl.isa.condition import ConditionCode
from rtl.isa.control_code import INSTRUCTION_BYTES, instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.isa.tokens import CRS_GRANULE, LINE_BYTES
from rtl.params import WARP_THREADS
from sim.launch import PROGRAM_BASE
from sim.model.warp.host import ModelHost
from sim.model.warp.model import WarpModel
from sim.model.warp.state import Warp
from sim.model.warp.vector.lanes import Condition
from testbench.flow.steps import ALL, Stream, retire, start_of
from testbench.flow.traps import trap_step
from testbench.handmade import encode, machine

_PC_SPACE = 1 << 32
_INDEXES = range(4)
"""Registers that instructions read as an index."""
_RESULT = 9
"""The register that instructions write."""
_BANK = 2
_BANK_WORDS = 64
_FAILURES = 6
"""The number of failures in a row after which a stream ends: no operation can empty the stack any
more.
"""
_TRAPS = 0.06
"""Probability of an operation of the trap unit in place of an instruction."""
_NAMES = (
    ["SSY", "PBK", "PCNT", "PRET", "PEXIT", "PLONGJMP"] * 3
    + ["BRA", "JMP", "BRX", "JMX"] * 4
    + ["CAL", "JCAL"] * 3
    + ["SYNC", "BRK", "CONT", "RET", "EXIT", "LONGJMP"] * 4
    + ["KIL", "SAM", "RAM", "RAM", "GETCRSPTR", "GETLMEMBASE", "CCTLL", "CCTLL"]
)


def _mask(source: Random) -> int:
    """A random mask of threads: none, all, one, few, half."""
    return source.choice(
        [
            0,
            ALL,
            ALL,
            1 << source.randrange(WARP_THREADS),
            source.getrandbits(32),
            source.getrandbits(32) & source.getrandbits(32) & source.getrandbits(32),
        ]
    )


def _target(source: Random, pc: int, relative: bool, width: int) -> int:
    """A random target: most are aligned, some are out of range or misaligned."""
    if source.random() < 0.04:
        return source.getrandbits(width)
    to = source.randrange(0, _PC_SPACE >> source.choice([0, 8, 16]), INSTRUCTION_BYTES)
    offset = to - (pc + INSTRUCTION_BYTES if relative else 0)
    return offset & (1 << width) - 1


def _word(source: Random, warp: Warp, name: str) -> int:
    """The word of an instruction of that name; sets the index registers of the warp to fit it."""
    pc = instruction_address(warp.pc)
    relative = name not in ("JMP", "JMX", "JCAL")
    fields: dict[str, int] = {}
    if name in ("BRA", "JMP", "BRX", "JMX", "SYNC", "BRK", "CONT", "RET", "EXIT", "LONGJMP", "KIL"):
        fields = {
            "guard": source.choice([0, 1, PT, PT]) + 8 * (source.random() < 0.2),
            "test": source.choice([ConditionCode.T.value] * 3 + [source.randrange(32)]),
        }
    if name in ("BRA", "JMP"):
        fields |= {"uniform": source.random() < 0.2, "limited": source.random() < 0.2}
    if name in ("BRX", "JMX"):
        fields |= {"Ra": source.choice([*_INDEXES, RZ]), "limited": source.random() < 0.1}
    if name in ("CAL", "JCAL", "PRET"):
        fields["counted"] = source.random() < 0.8
    if name == "EXIT":
        fields["keep_reference"] = source.random() < 0.3
    if name in ("GETCRSPTR", "GETLMEMBASE"):
        fields["Rd"] = source.choice([_RESULT, RZ])
    variant = "stack" if name == "CCTLL" else None
    if name in (
        "BRA",
        "JMP",
        "JCAL",
        "CAL",
        "PRET",
        "PLONGJMP",
        "SSY",
        "PBK",
        "PCNT",
        "BRX",
        "JMX",
    ):
        variant = "c" if source.random() < 0.15 else "r" if name in ("BRX", "JMX") else "i"
    if variant == "c":
        offset = 4 * source.randrange(-2 if source.random() < 0.1 else 0, _BANK_WORDS) + (
            source.random() < 0.03
        )
        return encode(name, variant, bank=_BANK, offset=offset, **fields)
    if name in ("BRX", "JMX"):
        width = 24 if relative else 32
        offset = source.randrange(-1 << width - 4, 1 << width - 4, INSTRUCTION_BYTES)
        return encode(name, variant, target=offset, **fields)
    if name in ("BRA", "JMP", "CAL", "JCAL", "PRET", "PLONGJMP", "SSY", "PBK", "PCNT", "PEXIT"):
        width = 24 if relative else 32
        value = _target(source, pc, relative, width)
        fields["target"] = value - (1 << width) if relative and value >> width - 1 else value
    return encode(name, variant, **fields)


def _prepare(source: Random, warp: Warp) -> None:
    """Sets predicates, condition flags and index registers to random values."""
    warp.predicates[:2] = [_mask(source), _mask(source)]
    warp.condition = Condition(*(_mask(source) for _ in range(4)))
    pc = instruction_address(warp.pc)
    for register in _INDEXES:
        few = [
            _target(source, pc, source.random() < 0.5, 32)
            for _ in range(source.choice([1, 1, 2, 3]))
        ]
        warp.registers[register] = np.array(
            [source.choice(few) for _ in range(WARP_THREADS)], np.uint32
        )
    if source.random() < 0.2:  # indexes into a table
        warp.registers[0] = np.array(
            [4 * source.randrange(_BANK_WORDS) for _ in range(WARP_THREADS)], np.uint32
        )


def _machine(source: Random, base: int, report_mask: int) -> WarpModel:
    """A machine with one new warp; memory has every pc that the warp can reach."""
    table = b"".join(
        _target(source, 0, False, 32).to_bytes(4, "little") for _ in range(_BANK_WORDS)
    )
    threads = source.choice([32, 32, 32, source.randrange(1, 33)])
    made = machine(
        [0] * 6,
        report_mask=report_mask,
        constants={_BANK: table},
        block=(threads, 1, 1),
        crs=CRS_GRANULE * source.choice([0, 1, 1, 2, 4]),
        local=CRS_GRANULE // WARP_THREADS,
        check_calls=source.random() < 0.5,
        warps=1,
    )
    made.memory.map("every pc", PROGRAM_BASE + LINE_BYTES, _PC_SPACE - LINE_BYTES)
    warp = made.warps[0]
    assert warp is not None
    made.memory.map("stack", base, made.launch.warp_block)
    warp.local_base = base
    return made


def random_streams(
    source: Random, place: Iterator[int], count: int, length: int, report_mask: int
) -> Iterator[Stream]:
    """``count`` warps with up to ``length`` instructions each."""
    for number in range(count):
        made = _machine(source, next(place), report_mask)
        warp, host = made.warps[0], ModelHost(made)
        assert warp is not None
        stream = Stream(f"random warp {number}", start_of(warp, made.launch), [])
        failures, written_back = 0, False
        while made.warps[0] is not None and len(stream.steps) < length and failures < _FAILURES:
            if source.random() < _TRAPS:
                stream.steps.append(step := trap_step(source, made, warp))
                written_back, failures = (
                    False,
                    failures + 1 if step.error is not WarpError.NONE else 0,
                )
                if step.terminated:
                    break
                continue
            _prepare(source, warp)
            name = source.choice(_NAMES)
            # the tokens that SETCRSPTR drops are in memory
            if written_back and source.random() < 0.5:
                depth = source.randrange(warp.stack.depth + 1)
                warp.registers[0] = source.getrandbits(9) << 23 | depth
                word = encode("SETCRSPTR", Ra=0)
            else:
                word = _word(source, warp, name)
            made.memory.write_number(
                PROGRAM_BASE + instruction_address(warp.pc), INSTRUCTION_BYTES, word
            )
            record, step = retire(made, 0)
            assert step is not None
            stream.steps.append(step)
            written_back = step.form.name == "CCTLL" and record.error is WarpError.NONE
            failures = failures + 1 if record.error is not WarpError.NONE else 0
            host.run_trigger()  # a warp is paused after an error
        yield stream
