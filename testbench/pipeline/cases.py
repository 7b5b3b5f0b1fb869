"""Directed cases of the execute unit beside arithmetic. Each case is a part of a script and checks
its results.
"""

from collections.abc import Generator
from typing import Any

from rtl.isa.condition import TRUTH, ConditionCode
from rtl.isa.control_code import INSTRUCTION_BYTES, NO_BARRIER
from rtl.isa.errors import WarpError
from rtl.isa.kinds import BarrierMode, BarrierReduction, Compare, VoteMode
from rtl.isa.special_registers import SpecialRegister
from rtl.isa.syntax import PT, RZ
from rtl.layouts import InstructionKind, LaneClient
from rtl.params import WARP_THREADS
from testbench.pipeline.driver import ALL, Pipeline, Script, WriteData, Written
from testbench.pipeline.reference import COMPLETION_CYCLES, RESULT_CYCLES
from testbench.words import NOP, encode, move

REPORTED = 1 << WarpError.INVALID_CONST_ADDR.value | 1 << WarpError.OOR_REG.value
"""The mask of errors that are reported in the cases."""
PREDICATE = 13
"""Cycles from an instruction to one that reads its predicate, on four or more lanes. On fewer lanes
issue enforces a longer distance.
"""
CLOCK_CYCLES = 128
"""The resolution of clock registers in a serial machine, in cycles."""
_THREADS = range(WARP_THREADS)
_UPPER = 0xFFFF_0000
_ZERO, _CARRY = 1, 4


def _quiet(p: Pipeline) -> Script:
    """Waits until nothing is in flight."""
    yield from p.settle(14 + p.params.quarter_cycles)


def _written(p: Pipeline, word: int, **how: Any) -> Generator[None, None, Written]:
    """Issues an instruction alone and returns what it has written."""
    sequence = p.issue(word, **how)
    yield from _quiet(p)
    return p.written[sequence]


def _mask(flags: list[int]) -> int:
    return sum(bool(flag) << thread for thread, flag in enumerate(flags))


def _wake(p: Pipeline, warp: int, active: int = ALL) -> Script:
    p.launch(warp, first_row=32 * warp)
    p.flow_result(warp, active)
    yield


def distances(p: Pipeline) -> Script:
    """A result can be read as early as the latency contract says, and not a cycle earlier."""
    beats = p.params.beats
    yield from _wake(p, 1)
    for gap in (RESULT_CYCLES - 1, RESULT_CYCLES, PREDICATE):
        if gap < beats:  # the lanes are busy until then
            continue
        yield from _written(p, move(1, 1), warp=1)
        p.issue(move(1, 2), warp=1)
        yield from p.wait(gap)
        reader = yield from _written(p, encode("IADD", "r", Rd=2, Ra=1, Rb=1), warp=1)
        p.bench.expect(
            f"a register after {gap} cycles", set(reader.values), {4 if gap >= RESULT_CYCLES else 2}
        )

        yield from _written(p, encode("IADD", "i", Rd=RZ, Ra=RZ, imm=1, cc=1), warp=1)
        p.issue(encode("IADD32I", Rd=RZ, Ra=1, imm32=-1, cc=1), warp=1)  # 2 - 1 sets the carry flag
        yield from p.wait(gap)
        reader = yield from _written(p, encode("IADD", "r", Rd=2, Ra=RZ, Rb=RZ, extended=1), warp=1)
        p.bench.expect(f"CC after {gap} cycles", set(reader.values), {int(gap >= RESULT_CYCLES)})

    seen = RESULT_CYCLES - 1 + beats  # the predicate of the last beat is written
    for gap in (seen - 1, seen, max(PREDICATE, p.params.lanes_stall)):
        setter = encode("ISETP", "i", Pd=2, Ra=RZ, imm=0, compare=Compare.NE.value)
        yield from _written(p, setter, warp=1)
        p.issue(encode("ISETP", "i", Pd=2, Ra=RZ, imm=0, compare=Compare.EQ.value), warp=1)
        yield from p.wait(gap)
        reader = p.issue(encode("MOV32I", Rd=3, imm32=9, guard=2), warp=1)
        yield from p.wait(max(beats, 1))
        yield from _quiet(p)
        last = ALL >> p.params.lanes
        p.bench.expect(
            f"threads of the guard after {gap} cycles",
            p.written[reader].threads,
            ALL if gap >= seen else last,
        )


def launched(p: Pipeline) -> Script:
    """A launch clears predicates and CC, and sets the rows of the warp's registers; units write
    registers, predicates and CC.
    """
    rows = 32
    everything = WriteData([7 + thread for thread in _THREADS], ALL, [15] * WARP_THREADS)
    yield from _wake(p, 2)
    for number in range(PT):
        p.write(number, everything, warp=2, predicate=number, conditional=True)
        yield from p.wait(p.params.beats)
    yield from _quiet(p)
    for changes, predicates, flags in ((False, (1 << PT) - 1, 15), (True, 0, 0)):
        if changes:
            p.launch(2, first_row=rows)
            yield
        value = yield from _written(p, encode("P2R", "i", Rd=1, Ra=RZ, imm=0xFF, which=0), warp=2)
        p.bench.expect("predicates", set(value.values), {predicates | 1 << PT})
        value = yield from _written(p, encode("P2R", "i", Rd=1, Ra=RZ, imm=0xFF, which=1), warp=2)
        p.bench.expect("CC", set(value.values), {flags})
        guarded = p.issue(encode("MOV32I", Rd=1, imm32=0, guard=1), warp=2)
        yield from p.wait(p.params.beats)
        count = len(p.dispatches)
        for test in ConditionCode:
            p.issue(encode("BRA", "i", target=64, test=test.value), warp=2)
            yield
        yield from _quiet(p)
        p.bench.expect("threads of a guard", p.written[guarded].threads, ALL if predicates else 0)
        p.bench.expect(
            "threads of each test of CC",
            [event.guard for _, event in p.dispatches[count:]],
            [ALL if TRUTH[test.value] >> flags & 1 else 0 for test in ConditionCode],
        )
    # One thread's predicate is written: those of other threads stay clear, although they were set
    # before the launch.
    p.write(RZ, everything, warp=2, threads=1 << 5, predicate=3)
    yield from _quiet(p)
    value = yield from _written(p, encode("P2R", "i", Rd=1, Ra=RZ, imm=0xFF, which=0), warp=2)
    p.bench.expect(
        "predicates after one was written",
        value.values,
        [1 << PT | (8 if thread == 5 else 0) for thread in _THREADS],
    )
    # Warps 1 and 2 have the same rows: their registers are the same.
    yield from _wake(p, 1)
    p.write(9, everything, warp=1, client=LaneClient.CONVERSION)
    yield from _quiet(p)
    where = p.gather(
        [9, RZ, 9], warp=2, client=LaneClient.CONVERSION, index=3, last=True, barrier=4
    )
    beside = WriteData(values=[~value & 0xFFFF_FFFF for value in everything.values])
    p.write(9, beside, warp=1)  # overlaps the gather, to the same register
    cycle = p.cycle
    yield from _quiet(p)
    p.bench.expect(
        "registers",
        p.gathered[where][-1],
        [list(everything.values), [0] * 32, list(everything.values)],
    )
    (at, event), late = p.reads[-1], max(p.params.beats - 1, 1)
    p.bench.expect("operands read", (event.warp, event.barrier), (2, 4))
    if p.timed:
        p.bench.expect("cycle in which operands are read", at, cycle + late)
    # A write is reported when its first beat is sent, or with its last beat if it may write a
    # predicate or CC.
    for predicate, conditional, latency in ((PT, False, 1), (0, False, late), (PT, True, late)):
        count = len(p.passed)
        p.write(9, beside, warp=1, predicate=predicate, conditional=conditional)
        cycle = p.cycle
        yield from _quiet(p)
        p.bench.expect("how often issue is notified", len(p.passed[count:]), 1)
        if p.timed:
            p.bench.expect("cycles until issue is notified", p.passed[-1][0] - cycle, latency)

    where = p.gather([9], warp=2)
    yield from _quiet(p)
    p.bench.expect(
        "what was written beside a gather", p.gathered[where][-1][0], list(beside.values)
    )


def votes_and_clocks(p: Pipeline) -> Script:
    """Votes of some threads; clock registers count cycles; LEPC returns the next pc."""
    yield from _wake(p, 0, _UPPER)
    for mask, verdicts in (
        (0, (0, 1, 0)),
        (0x10_0000, (0, 0, 1)),
        (_UPPER, (1, 1, 1)),
        (0xFFFF, (0, 1, 0)),
    ):
        p.write(RZ, WriteData(flags=mask), predicate=4, client=LaneClient.BARRIER)
        yield from _quiet(p)
        for mode, verdict in zip((VoteMode.ALL, VoteMode.EQ, VoteMode.ANY), verdicts, strict=True):
            vote = yield from _written(p, encode("VOTE", Rd=7, Pd=1, Pc=4, mode=mode.value))
            p.bench.expect("who votes", vote.threads, _UPPER)
            p.bench.expect("the ballot", set(vote.values[16:]), {mask & _UPPER})
            p.bench.expect(
                f"{mode.name} of {mask:#x}",
                {flags >> 1 & 1 for flags in vote.flags[16:]},
                {verdict},
            )
    clock = encode("CS2R", Rd=4, special=SpecialRegister.CLOCKLO)
    first = p.issue(clock)
    yield from p.wait(37)
    second = yield from _written(p, clock)
    between = second.values[31] - p.written[first].values[31]
    if p.timed:
        p.bench.expect("cycles between two looks at the clock", between, 37)
    else:
        p.bench.expect("rest of cycles between two looks", between % CLOCK_CYCLES, 0)
        p.bench.expect("cycles between two looks at the clock", between in range(1, 2000), True)
        p.bench.expect(
            "cycles since the last look", p.cycle - second.values[31] in range(1000), True
        )
    pc = yield from _written(p, encode("LEPC", Rd=5), pc=0x1238)
    p.bench.expect("the next pc", set(pc.values[16:]), {0x1238 + INSTRUCTION_BYTES})


def dispatched(p: Pipeline) -> Script:
    """The dispatch of an instruction to other units, a cycle after S3."""
    yield from _wake(p, 3, _UPPER)
    nibbles = [thread % 16 for thread in _THREADS]
    p.write(
        RZ, WriteData(flags=0x5555_5555, conditions=nibbles), warp=3, predicate=0, conditional=True
    )
    yield from _quiet(p)
    count = len(p.dispatches)
    guarded = encode("STG", Rd=0, Ra=2, wide=1, size=4, guard=8)
    cases = (
        (guarded, {}, 0xAAAA_AAAA, ALL, WarpError.NONE),
        (encode("SSY", "i", target=64), {}, ALL, ALL, WarpError.NONE),
        (
            encode("POPC", "c", Rd=0, offset=4, bank=2, guard=0),
            {"constant": 77},
            0x5555_5555,
            ALL,
            WarpError.NONE,
        ),
        (
            encode("POPC", "c", Rd=0, offset=4, bank=2),
            {"missing": True},
            ALL,
            ALL,
            WarpError.INVALID_CONST_ADDR,
        ),
        (
            encode("BRA", "c", offset=6, bank=2),
            {"missing": True},
            ALL,
            ALL,
            WarpError.MISALIGNED_IMMC_ADDR,
        ),
        (encode("JMP", "c", offset=8, bank=2), {"constant": 0x80}, ALL, ALL, WarpError.NONE),
        (
            encode(
                "BAR",
                "ii",
                mode=BarrierMode.RED.value,
                reduction=BarrierReduction.OR.value,
                Pc=0,
                Pc_not=1,
            ),
            {},
            ALL,
            0xAAAA_AAAA,
            WarpError.NONE,
        ),
        (encode("BPT", reason=1, mode=3), {}, ALL, ALL, WarpError.NONE),
        *(
            (
                encode("BRA", "i", target=64, guard=8, test=test),
                {},
                0xAAAA_AAAA
                & sum((truth >> nibble & 1) << thread for thread, nibble in enumerate(nibbles)),
                ALL,
                WarpError.NONE,
            )
            for test, truth in enumerate(TRUTH)
        ),
    )
    begin = p.cycle
    sequences = []
    for word, what, *_ in cases:
        sequences.append(
            p.issue(
                word,
                warp=3,
                pc=0x48,
                write_barrier=2,
                read_barrier=5,
                constant=what.get("constant", 0),
                missing=bool(what.get("missing", 0)),
            )
        )
        yield
    yield from _quiet(p)
    found = p.dispatches[count:]
    if p.timed:
        p.bench.expect(
            "dispatches",
            [cycle for cycle, _ in found],
            list(range(begin + 2, begin + 2 + len(cases))),
        )
    for (_, event), sequence, (word, what, guard, predicate, fault) in zip(
        found, sequences, cases, strict=True
    ):
        sent = event
        p.bench.expect(
            "word, sequence number, warp, pc",
            (sent.word, sent.sequence, sent.warp, sent.pc),
            (word, sequence, 3, 0x48),
        )
        p.bench.expect(f"guard of {word:#x}", sent.guard, guard)
        p.bench.expect(f"active threads of {word:#x}", sent.active, _UPPER)
        p.bench.expect(f"predicate of {word:#x}", sent.predicate, predicate)
        p.bench.expect(f"fault of {word:#x}", WarpError(sent.fault), fault)
        p.bench.expect(f"same of {word:#x}", sent.same, ALL)
        p.bench.expect(f"constant of {word:#x}", sent.operands[0], what.get("constant", 0))
        p.bench.expect("scoreboards", (sent.write_barrier, sent.read_barrier), (2, 5))


def collected(p: Pipeline) -> Script:
    """Operands of the lowest thread that executes an instruction."""
    yield from _wake(p, 1, _UPPER)
    values, others = [thread // 3 for thread in _THREADS], [100 + thread for thread in _THREADS]
    p.write(1, WriteData(values), warp=1)
    yield from p.wait(p.params.beats)
    # From another place of the client: on 32 lanes the data of the first write are requested only
    # after the second one has begun.
    p.write(
        2,
        WriteData(others, 0x00F8_0000, [_ZERO * (thread >= 22) for thread in _THREADS]),
        warp=1,
        predicate=5,
        conditional=True,
        index=1,
    )
    yield from _quiet(p)
    tested = ConditionCode.EQ.value
    for word, executing, kind in (
        (encode("BRX", "r", Ra=1, target=0), _UPPER, InstructionKind.FLOW_INDEXED),
        (encode("BRX", "r", Ra=1, target=0, guard=5), 0x00F8_0000, InstructionKind.FLOW_INDEXED),
        (
            encode("JMX", "r", Ra=1, target=0, guard=5, test=tested),
            0x00C0_0000,
            InstructionKind.FLOW_INDEXED,
        ),
        (
            encode("JMX", "r", Ra=1, target=0, guard=13, test=tested),
            0xFF00_0000,
            InstructionKind.FLOW_INDEXED,
        ),
        (encode("BRX", "r", Ra=1, target=0, guard=6), 0, InstructionKind.FLOW_INDEXED),
        (encode("SETCRSPTR", Ra=1), _UPPER, InstructionKind.FLOW_INDEXED),
        (
            encode("BAR", "rr", Ra=1, Rb=2, mode=BarrierMode.SYNC.value, guard=5),
            0x00F8_0000,
            InstructionKind.BARRIER_INDEXED,
        ),
    ):
        count, busy = len(p.dispatches), len(p.collecting)
        sequence, begin = p.issue(word, warp=1), p.cycle
        yield
        # Other instructions are dispatched first, one every cycle, until the operands have been
        # present for long.
        meanwhile = 8 + p.params.beats if p.timed else 0
        for _ in range(meanwhile):
            p.issue(encode("SSY", "i", target=64), warp=1)
            yield
        yield from _quiet(p)
        *first, (cycle, event) = p.dispatches[count:]
        p.bench.expect("instructions that went first", len(first), meanwhile)
        if p.timed:
            p.bench.expect("cycle of the dispatch", cycle, begin + meanwhile + 3)
            p.bench.expect(
                "the collector is occupied", p.collecting[busy:], list(range(begin + 2, cycle))
            )
        sent = event
        p.bench.expect(
            "sequence number and kind",
            (sent.sequence, InstructionKind(sent.kind)),
            (sequence, kind),
        )
        if executing:
            lowest = (executing & -executing).bit_length() - 1
            p.bench.expect(f"Ra of {word:#x}", sent.operands[0], values[lowest])
            same = executing & _mask([value == values[lowest] for value in values])
            p.bench.expect(f"threads with the same Ra of {word:#x}", sent.same, same)
            if kind is InstructionKind.BARRIER_INDEXED:
                p.bench.expect("Rb", sent.operands[1], others[lowest])
        else:
            p.bench.expect("threads of nobody", sent.same, 0)
    p.bench.expect("nothing is written", sequence in p.written, False)
    # Without other instructions it is dispatched as soon as possible.
    p.issue(encode("BRX", "r", Ra=1, target=0), warp=1)
    begin = p.cycle
    yield from _quiet(p)
    if p.timed:
        p.bench.expect(
            "cycle of an early dispatch", p.dispatches[-1][0], begin + p.params.beats + 5
        )


def constants(p: Pipeline) -> Script:
    """A constant beyond the end of its bank is an error if a thread executes the instruction."""
    yield from _wake(p, 2, 0xFF)
    for guard, fails in ((PT, True), (0, False)):
        count, done = len(p.errors), len(p.completions)
        word = encode("MOV", "c", Rd=3, offset=4, bank=2, guard=guard)
        sequence = p.issue(word, warp=2, missing=True, pc=0x30, write_barrier=1, read_barrier=3)
        begin = p.cycle
        yield from _quiet(p)
        p.bench.expect(
            "errors",
            [(event.warp, event.pc, WarpError(event.error)) for _, event in p.errors[count:]],
            [(2, 0x30, WarpError.INVALID_CONST_ADDR)] * fails,
        )
        if p.timed:
            p.bench.expect(
                "cycles of errors", [cycle for cycle, _ in p.errors[count:]], [begin + 2] * fails
            )
        p.bench.expect("nobody writes", p.written[sequence].threads, 0)
        p.bench.expect(
            "completions",
            [
                (event.sequence, event.write_barrier, event.read_barrier)
                for _, event in p.completions[done:]
            ],
            [(sequence, 1, 3)],
        )


def refused(p: Pipeline) -> Script:
    """An illegal instruction completes, with its error if that is reported."""
    for error in (WarpError.OOR_REG, WarpError.MISALIGNED_REG):
        count, done = len(p.errors), len(p.completions)
        sequence, begin = (
            p.issue(0, warp=1, pc=0x50, kind=InstructionKind.REFUSED, error=error),
            p.cycle,
        )
        yield from _quiet(p)
        reported = bool(REPORTED >> error.value & 1)
        p.bench.expect(
            f"{error.name} is reported",
            [(WarpError(event.error), event.pc) for _, event in p.errors[count:]],
            [(error, 0x50)] * reported,
        )
        if p.timed:
            p.bench.expect(
                "cycles of errors", [cycle for cycle, _ in p.errors[count:]], [begin + 2] * reported
            )
        p.bench.expect(
            "completions", [event.sequence for _, event in p.completions[done:]], [sequence]
        )
        p.bench.expect("writes of a refused instruction", sequence in p.written, False)


def ended(p: Pipeline) -> Script:
    """An instruction that ends when it issues causes no event."""
    before = len(p.dispatches), len(p.completions), len(p.passed)
    for kind in (InstructionKind.NOTHING, InstructionKind.DEPENDENCY):
        sequence = p.issue(NOP, warp=1, kind=kind)
        yield from _quiet(p)
        p.bench.expect("writes", sequence in p.written, False)
    p.bench.expect("events", (len(p.dispatches), len(p.completions), len(p.passed)), before)


def together(p: Pipeline) -> Script:
    """Completions in consecutive cycles: refused instructions every cycle beside those of the
    lanes.
    """
    yield from _wake(p, 0)
    done, sequences = len(p.completions), []
    for _ in range(4):
        sequences.append(p.issue(move(1, 5)))
        yield
        for _ in range(p.params.beats - 1):
            sequences.append(
                p.issue(0, warp=1, kind=InstructionKind.REFUSED, error=WarpError.PC_WRAP)
            )
            yield
    yield from _quiet(p)
    p.bench.expect(
        "completions in order", [event.sequence for _, event in p.completions[done:]], sequences
    )


def parts(p: Pipeline) -> Script:
    """An instruction of the full lanes: its rate, its beats written as a whole, and its completion
    in a cycle of its own.
    """
    beats, numbers = p.params.beats, WriteData(list(_THREADS))
    yield from _wake(p, 0)
    p.write(1, numbers)
    yield from _quiet(p)
    done, begin, sequences = len(p.completions), p.cycle, []
    product = p.issue(encode("IMUL", "i", Rd=1, Ra=1, imm=0x10001))
    for later in range(1, p.params.quarter_cycles):
        yield
        if later != p.params.parts * beats:
            sequences.append(
                p.issue(0, warp=1, kind=InstructionKind.REFUSED, error=WarpError.PC_WRAP)
            )
    yield
    follower = p.issue(move(2, 9), warp=1)
    # As early as the product may be read, but after all beats of the instructions in between have
    # passed the lanes.
    yield from p.wait(max(p.params.quarter_stall - p.params.quarter_cycles, beats))
    reader = p.issue(encode("IADD", "i", Rd=2, Ra=1, imm=1))
    yield from _quiet(p)
    products = [0x10001 * thread for thread in _THREADS]
    p.bench.expect("products", p.written[product].values, products)
    p.bench.expect("beats of them", p.written[product].beats, beats)
    p.bench.expect("what reads them", p.written[reader].values, [value + 1 for value in products])
    complete = {event.sequence: cycle for cycle, event in p.completions[done:]}
    p.bench.expect("completions", sorted(complete), sorted([product, *sequences, follower, reader]))
    if p.timed:
        p.bench.expect(
            "cycle of its completion",
            complete[product],
            begin + COMPLETION_CYCLES + (p.params.parts + 1) * beats - 1,
        )


def flow_reads(p: Pipeline) -> Script:
    """The value that the flow unit reads is written to a register, if it belongs to this
    instruction.
    """
    read, push = encode("GETCRSPTR", Rd=6), encode("SSY", "i", target=64)
    yield from _wake(p, 3, 0x0F0F_0F0F)
    for word, pushes, error in (
        (read, 0, WarpError.NONE),
        (read, 3, WarpError.NONE),
        (encode("GETCRSPTR", Rd=RZ), 1, WarpError.NONE),
        (read, 1, WarpError.STACK_ERROR),
    ):
        count, done = len(p.flow_operations), len(p.completions)
        for _ in range(pushes):
            p.issue(push, warp=3)
            yield
            if not p.timed:  # the result precedes the next instruction
                p.flow_result(3, 0x0F0F_0F0F, value=0xBAD)
        sequence = p.issue(word, warp=3, write_barrier=4)
        yield from p.wait(4)
        for _ in range(pushes * p.timed):
            p.flow_result(3, 0x0F0F_0F0F, value=0xBAD)
            yield
        p.flow_result(2, ALL, value=0xBAD)
        yield from p.settle(3)
        p.bench.expect("operations before the result", len(p.flow_operations), count)
        p.flow_result(3, 0x0F0F_0F0F, value=0x1234_5678, error=error)
        yield from p.settle(3)
        operation = p.flow_operations[-1][1]
        p.accept_flow()
        yield from p.settle(1)
        count = len(p.flow_operations)
        yield
        p.repeat(operation)
        yield from _quiet(p)
        p.bench.expect("operations once it was taken", len(p.flow_operations), count)
        written = p.written[sequence]
        p.bench.expect(
            "threads", written.threads, 0 if error is not WarpError.NONE else 0x0F0F_0F0F
        )
        p.bench.expect("register", written.register, word & 0xFF)
        p.bench.expect(
            "value",
            {written.values[thread] for thread in _THREADS if written.threads >> thread & 1},
            {0x1234_5678} if written.threads else set(),
        )
        p.bench.expect(
            "completion",
            [
                (event.sequence, event.write_barrier, event.read_barrier)
                for _, event in p.completions[done:]
            ],
            [(sequence, 4, NO_BARRIER)],
        )


def results(p: Pipeline) -> Script:
    """The threads of each group of four that a move writes; of two results for one predicate the
    second one remains.
    """
    yield from _wake(p, 1, ~1 & ALL)
    move_some = p.issue(encode("MOV", "i", Rd=1, imm=77, lanes=5), warp=1)
    yield from p.wait(p.params.beats)
    # No thread executes the instruction, so a missing constant is no error.
    count = len(p.errors)
    p.issue(encode("MOV", "c", Rd=1, offset=4, bank=2, lanes=0), warp=1, missing=True)
    yield from p.wait(p.params.beats)
    both = yield from _written(
        p, encode("ISETP", "i", Pd=1, Pd2=1, Ra=RZ, imm=0, compare=Compare.NE.value), warp=1
    )
    p.bench.expect("threads of a move", p.written[move_some].threads, 0x5555_5554)
    p.bench.expect("errors of nobody", p.errors[count:], [])
    p.bench.expect("the second result", {flags >> 1 & 1 for flags in both.flags[1:]}, {1})
    both = yield from _written(
        p, encode("ISETP", "i", Pd=1, Pd2=1, Ra=RZ, imm=0, compare=Compare.EQ.value), warp=1
    )
    p.bench.expect("the second result", {flags >> 1 & 1 for flags in both.flags[1:]}, {0})


def beside(p: Pipeline) -> Script:
    """A launch of one warp does not disturb instructions of another one in flight."""
    numbers = WriteData([3 * thread for thread in _THREADS], ALL, [15] * WARP_THREADS)
    for warp in (1, 2):
        yield from _wake(p, warp)
        for register, predicate in ((1, 2), (2, 6)):
            p.write(register, numbers, warp=warp, predicate=predicate, conditional=True)
    yield from _quiet(p)
    sums = [
        p.issue(encode("IADD", "r", Rd=3 + place, Ra=1, Rb=2 + place), warp=1) for place in range(2)
    ]
    test = p.issue(encode("ISETP", "i", Pd=4, Ra=1, imm=3, compare=Compare.EQ.value), warp=1)
    yield
    p.at_once("launch", {"warp": 2, "first_row": 64})
    cleared = p.clear([64 + register for register in (1, 2, 3)])
    for cycle in range(40 * WARP_THREADS):
        again, thread = divmod(cycle, WARP_THREADS)
        if again % 2 == 0:  # more often than in a machine, so that it coincides with everything
            p.at_once("thread", {"warp": 2, "thread": thread, "x": thread, "y": 2, "z": 1})
        next(cleared, None)
        yield
    yield from _quiet(p)
    p.bench.expect("the first sum", p.written[sums[0]].values, [6 * thread for thread in _THREADS])
    p.bench.expect("the second sum", p.written[sums[1]].values, [9 * thread for thread in _THREADS])
    p.bench.expect(
        "predicates",
        p.written[test].flags,
        [(thread == 1) << 4 | 1 << 2 | 1 << 6 for thread in _THREADS],
    )
    for which in (0, 1):
        packed = yield from _written(
            p, encode("P2R", "i", Rd=9, Ra=RZ, imm=0xFF, which=which), warp=2
        )
        p.bench.expect(
            "predicates and CC of the new warp", set(packed.values), {0 if which else 1 << PT}
        )
    index = yield from _written(p, encode("S2R", Rd=9, special=SpecialRegister.TID), warp=2)
    p.bench.expect(
        "places of the new warp", index.values, [thread | 2 << 16 | 1 << 26 for thread in _THREADS]
    )
    where = p.gather([1, 2, 3], warp=2)
    yield from _quiet(p)
    p.bench.expect("registers of the new warp", p.gathered[where][-1], [[0] * WARP_THREADS] * 3)


CASES = (
    distances,
    launched,
    results,
    votes_and_clocks,
    dispatched,
    collected,
    constants,
    refused,
    ended,
    together,
    parts,
    flow_reads,
)
"""All cases of a pipelined machine."""
SERIAL_CASES = (
    launched,
    results,
    votes_and_clocks,
    dispatched,
    collected,
    constants,
    refused,
    ended,
    together,
    parts,
    flow_reads,
    beside,
)
"""All cases of a serial machine: those that do not only check cycles, and one for itself."""
