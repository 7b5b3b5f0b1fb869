"""Retirement events that a machine without faults would report, recorded from a run of the warp
model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

from rtl.fetch.predecode import kind_of
from rtl.isa.control_code import instruction_address
from rtl.isa.errors import WarpError
from rtl.isa.syntax import PT, RZ
from rtl.layouts import KIND_RULES, ThreadCode
from rtl.params import PRESETS, WARP_THREADS
from sim.launch import Launch, prepare
from sim.machine.lockstep import Lockstep
from sim.machine.retirement_events import RetirementEvent
from sim.model.warp.model import WarpModel
from sim.model.warp.retirement import Retirement, WarpMasks
from sim.toolchain.assembly.assembler import assemble
from sim.toolchain.cubin.loader import load
from testbench.words import form_of

__all__ = ["PARAMS", "Recording", "codes_of", "followed", "launch_of", "record"]

PARAMS = PRESETS["tiny"]
ALL_ERRORS = 0x00FF_FFFF
"""Report mask with all errors."""
_CODES = {
    "broken": ThreadCode.BREAK,
    "continued": ThreadCode.CONTINUE,
    "returned": ThreadCode.RETURN,
    "exited": ThreadCode.EXIT,
    "longjumped": ThreadCode.LONGJMP,
    "killed": ThreadCode.KILLED,
}


def codes_of(masks: WarpMasks) -> int:
    """Returns why threads are not active: a code of three bits for each thread."""
    return sum(
        code.value << 3 * thread
        for name, code in _CODES.items()
        for thread in range(WARP_THREADS)
        if getattr(masks, name) >> thread & 1
    )


def launch_of(text: str, warps: int = 1) -> Launch:
    """Returns a launch of one block of a program in assembly text, with memory of its own."""
    return prepare(load(assemble(text, "program")), block=(WARP_THREADS * warps, 1, 1))


@dataclass
class Recording:
    """A run of one block: its program, its events in order, one a cycle, and the records of its
    instructions.
    """

    text: str
    events: list[RetirementEvent]
    records: list[Retirement]
    warps: int = 1


def record(text: str, warps: int = 1) -> Recording:
    """Runs a program until its warps have ended or one has an error, one instruction of each warp
    in turn.
    """
    model = WarpModel(launch_of(text, warps), warps=PARAMS.warps, report_mask=ALL_ERRORS)
    found, sequences = Recording(text, [], [], warps), [count() for _ in range(warps)]

    def add(what: str, source: str = "", /, **fields: Any) -> None:
        found.events.append(
            RetirementEvent(len(found.events), what, {"warp": warp, **fields}, source)
        )

    for warp in range(warps):
        add("launched", number=warp, cta_warps=warps, index={"x": 0, "y": 0, "z": 0})
    for warp in cycle(range(warps)):
        if not any(model.warps[:warps]):
            break
        if model.warps[warp] is None:
            continue
        one, sequence = model.retire(warp), next(sequences[warp])
        found.records.append(one)
        kind = kind_of(form_of(one.word))
        add("issued", sequence=sequence, pc=one.pc, word=one.word, kind=kind.value)
        for fields in _beats(one):
            add("written", **{"sequence": sequence, **fields})
        if one.error is not WarpError.NONE:
            add("errors", "lanes", pc=one.pc, error=one.error.value)
            break
        if KIND_RULES[kind].unit == "flow":
            add(
                "flow",
                pc=instruction_address(one.next_pc),
                active=one.after.active,
                codes=codes_of(one.after),
                terminated=int(one.terminated),
                error=0,
            )
        else:
            add("completed", sequence=sequence)
    return found


def _beats(one: Retirement) -> list[dict[str, int]]:
    """Splits the registers that an instruction writes into beats, each of as many lanes as the
    machine has.
    """
    lanes, found = PARAMS.lanes, []
    written = [
        *((number, threads, values) for number, (threads, values) in one.registers.items()),
        *([(RZ, 0, None)] if not one.registers else []),
    ]
    for place, (register, threads, values) in enumerate(written):
        for beat in range(WARP_THREADS // lanes):
            first, mine = beat * lanes, (1 << lanes) - 1
            predicates = flags = condition_lanes = nibbles = 0
            lanes_here = threads >> first & mine
            if place == 0:
                for number, (of, truth) in one.predicates.items():
                    lanes_here |= of >> first & mine
                    predicates |= (number != PT) << number
                    for lane in range(lanes):
                        flags |= (truth >> first + lane & 1) << PT * lane + number
                if one.condition is not None:
                    of, codes = one.condition
                    condition_lanes = of >> first & mine
                    lanes_here |= condition_lanes
                    nibbles = sum(codes[first + lane] << 4 * lane for lane in range(lanes))
            if lanes_here:
                content = (
                    sum(values[first + lane] << 32 * lane for lane in range(lanes)) if values else 0
                )
                found.append(
                    {
                        "beat": beat,
                        "lanes": lanes_here,
                        "register": register,
                        "values": content,
                        "predicates": predicates,
                        "flags": flags,
                        "conditional": int(one.condition is not None and place == 0),
                        "conditions": nibbles,
                    }
                )
    return found


def followed(recording: Recording, events: Sequence[RetirementEvent] | None = None) -> Lockstep:
    """Returns the lockstep comparison after it has received the recording's own events, or
    ``events``.
    """
    lockstep = Lockstep(launch_of(recording.text, recording.warps), PARAMS, ALL_ERRORS)
    for event in recording.events if events is None else events:
        lockstep.take(event)
    return lockstep
