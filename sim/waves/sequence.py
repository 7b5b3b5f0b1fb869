"""Draws the messages between the parts of the machine as a sequence diagram: warps, trap unit,
barriers, stack and host in a waveform.

The waveform is one of the whole machine, in the groups that ``sim.run --vcd`` and the testbenches ``sm``, ``trap`` and
``esr`` show. Time goes downwards, a row is an event, with its cycle beside it::

    python -m sim.waves trap
    python -m sim.waves.sequence waveforms/trap.vcd -o trap.svg --first 200 --cycles 440
"""

import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from rtl.isa.registers import SM_BLOCK, SM_REGISTERS, WORK_BLOCK, WORK_REGISTERS
from sim.support.command import Parser, check_file, write_file
from sim.waves.picture import PictureError, Waveform

__all__ = ["SequenceMessage", "draw", "main", "messages"]

HOST, TRAP, BARRIER, STACK = "host", "trap unit", "barrier unit", "stack"
_TO_TRAP = ("BPT", "RTT", "IDE")
_COLUMN, _ROW, _TOP, _LEFT, _RIGHT = 180, 24, 46, 110, 70
"""Distances in pixels: between lifelines, between events, above the first event, left of the first
and right of the last lifeline.
"""
_LETTER = 7
"""Width of a letter in pixels, an upper estimate."""


@dataclass(frozen=True)
class SequenceMessage:
    """An event: a message from a sender to a receiver.

    ``receiver`` is the sender if the event concerns no other participant, and empty if it concerns
    all.
    """

    cycle: int
    sender: str
    receiver: str
    text: str


def _changes(
    wave: Waveform, name: str, first: int, count: int
) -> Iterator[tuple[int, str | int, str | int]]:
    """Yields the cycle of each change, the value before and the value from then on."""
    for at, (before, after) in enumerate(pairwise(wave.values(name, first, count)), first + 1):
        if before != after:
            yield at, before, after


def _of_warp(wave: Waveform, warp: str, first: int, count: int) -> Iterator[SequenceMessage]:
    name, other, begun = warp.replace(" ", ""), 0, 0
    for at, _, change in _changes(wave, f"{name}.instruction", first, count):
        place, _, spelled = str(change).partition(" ")
        mnemonic = spelled.split(" ")[1 if spelled.startswith("@") else 0].split(".")[0]
        receiver = (
            TRAP
            if mnemonic in _TO_TRAP
            else BARRIER
            if mnemonic == "BAR"
            else warp
            if place in ("enters", "leaves")
            else ""
        )
        if not receiver:
            begun = begun or at
            other += 1
            continue
        if other:
            yield SequenceMessage(
                begun, warp, warp, f"{other} instruction{'s' if other > 1 else ''}"
            )
        other = begun = 0
        yield SequenceMessage(at, TRAP if receiver == warp else warp, receiver, str(change))
    if other:
        yield SequenceMessage(begun, warp, warp, f"{other} instruction{'s' if other > 1 else ''}")
    for at, _, state in _changes(wave, f"{name}.trap", first, count):
        yield SequenceMessage(
            at, warp, warp, f"is {state}" + (" of the trap" if state == "outside" else "")
        )
    for at, _, token in _changes(wave, f"{name}.token", first, count):
        change, kind = str(token)[:1], str(token)[1:]
        yield (
            SequenceMessage(at, STACK, warp, f"pop {kind}")
            if change == "-"
            else SequenceMessage(at, warp, STACK, f"push {kind}")
        )
    for at, _, active in _changes(wave, f"{name}.active", first, count):
        yield SequenceMessage(
            at, warp, warp, "has ended" if active == "ended" else f"resumes with {active}"
        )


def _of_host(wave: Waveform, first: int, count: int) -> Iterator[SequenceMessage]:
    """Yields the host's writes to the registers of the debugger and of the error status, and its
    starts of grids.
    """
    names = {SM_BLOCK + register.offset: name for name, register in SM_REGISTERS.items()}
    launch = WORK_BLOCK + WORK_REGISTERS["LAUNCH"].offset
    written = zip(
        *(wave.values(f"host.{name}", first, count) for name in ("write", "address", "data")),
        strict=True,
    )
    for at, (write, address, value) in enumerate(written, first):
        if write and address == launch:
            yield SequenceMessage(at, HOST, "", "the host starts a grid")
        elif write and address in names:
            yield SequenceMessage(at, HOST, TRAP, f"{names[address]} = {value:#x}")


def _errors(wave: Waveform, first: int, count: int) -> Iterator[SequenceMessage]:
    """The errors that warps report to the trap unit, each with the instruction that has failed."""
    for at, _, shown in _changes(wave, "machine.error", first, count):
        for warp, place, error in re.findall(r"(warp \d+): (\w+) (\w+)", str(shown)):
            instruction = f"{warp.replace(' ', '')}.instruction"
            issued = wave.values(instruction, first, at - first)
            found = (text for text in reversed(issued) if str(text).startswith(f"{place} "))
            yield SequenceMessage(at, warp, TRAP, f"{next(found, place)}: {error}")


def messages(wave: Waveform, first: int, count: int) -> list[SequenceMessage]:
    """Returns the messages in ``count`` cycles of a waveform of the whole machine; PictureError for
    any other waveform.
    """
    warps = sorted(
        {match[1] for name in wave.names if (match := re.match(r"warp(\d+)\.instruction$", name))},
        key=int,
    )
    if not warps:
        raise PictureError(
            f"{wave.path}: this is no waveform of the whole machine: no warp's instructions are in it"
        )
    events = [message for warp in warps for message in _of_warp(wave, f"warp {warp}", first, count)]
    events += _errors(wave, first, count)
    events += _of_host(wave, first, count)
    inside = {warp: wave.values(f"warp{warp}.trap", first, count) for warp in warps}
    machine = wave.values("machine.trap", first, count)
    for at, _, state in _changes(wave, "machine.trap", first, count):
        events.append(SequenceMessage(at, TRAP, "", f"the machine is {state}"))
    for at, _, level in _changes(wave, "machine.interrupt", first, count):
        events.append(
            SequenceMessage(at, TRAP, HOST, "interrupt" if level else "no interrupt any more")
        )
    for at, before, after in _changes(wave, "trap.barrier", first, count):
        gone = int(before) & ~int(after)
        trapping = machine[at - first] != "RUNNING"
        events += [
            SequenceMessage(at, TRAP, BARRIER, f"warp {warp} withdrawn")
            if trapping and inside[warp][at - first] == "outside"
            else SequenceMessage(at, BARRIER, f"warp {warp}", "resumes")
            for warp in warps
            if gone >> int(warp) & 1
        ]
    return sorted(events, key=lambda message: message.cycle)


def _arrow(begin: float, end: float, y: float) -> str:
    back = 6 if end > begin else -6
    return (
        f'<path d="M{begin} {y}H{end}" stroke="#333"/>'
        f'<path d="M{end} {y}l{-back} -4v8z" fill="#333"/>'
    )


def draw(wave: Waveform, first: int, count: int, title: str = "") -> str:
    """Draws ``count`` cycles from cycle ``first`` on as a sequence diagram in SVG.

    Raises PictureError if the waveform lacks cycles, or has no messages in them.
    """
    wave.check_cycles(first, count, at_least=2)
    drawn = messages(wave, first, count)
    if not drawn:
        raise PictureError(f"{wave.path}: nothing happens in cycles {first} to {first + count - 1}")
    columns = _columns(drawn)
    width, bottom = _LEFT + _COLUMN * (len(columns) - 1) + _RIGHT, _TOP + _ROW * (len(drawn) + 1)
    elements = [f'<rect width="{width}" height="{bottom + 10}" fill="white"/>']
    if title:
        elements.append(
            f'<text x="{width / 2}" y="14" text-anchor="middle" font-weight="bold">{escape(title)}</text>'
        )
    elements += [_lifeline(who, x, bottom) for who, x in columns.items()]
    before = None
    for row, message in enumerate(drawn):
        y = _TOP + _ROW * (row + 1)
        if message.cycle != before:
            elements.append(f'<text x="6" y="{y + 4}" fill="#777">{message.cycle}</text>')
        before = message.cycle
        elements.append(_message(message, columns, y, width))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 10}" '
        f'viewBox="0 0 {width} {bottom + 10}" font-family="sans-serif" font-size="12">\n'
        + "\n".join(elements)
        + "\n</svg>\n"
    )


def _columns(drawn: Iterable[SequenceMessage]) -> dict[str, int]:
    """Returns the x coordinate of each participant's lifeline: all units, and the warps that send
    or receive.
    """
    warps = sorted(
        {
            who
            for message in drawn
            for who in (message.sender, message.receiver)
            if who.startswith("warp ")
        },
        key=lambda who: int(who.removeprefix("warp ")),
    )
    return {
        who: _LEFT + _COLUMN * at for at, who in enumerate((HOST, TRAP, BARRIER, *warps, STACK))
    }


def _lifeline(who: str, x: int, bottom: int) -> str:
    return (
        f'<path d="M{x} {_TOP}V{bottom}" stroke="#aaa" stroke-dasharray="3 3"/><rect x="{x - 55}" '
        f'y="{_TOP - 26}" width="110" height="22" rx="4" fill="#d0ebe7" stroke="#00796b"/>'
        f'<text x="{x}" y="{_TOP - 11}" text-anchor="middle">{escape(who)}</text>'
    )


def _message(message: SequenceMessage, columns: Mapping[str, int], y: int, width: int) -> str:
    """Draws a message at height y: a bar over all lifelines without a receiver, a box if the sender
    is the receiver.
    """
    text, x = escape(message.text), columns[message.sender]
    if not message.receiver:
        return (
            f'<rect x="40" y="{y - 10}" width="{width - 50}" height="20" fill="#fff2b3" stroke="#c9a400"/>'
            f'<text x="{width / 2}" y="{y + 4}" text-anchor="middle">{text}</text>'
        )
    if message.receiver == message.sender:
        wide = _LETTER * len(message.text) + 10
        return (
            f'<rect x="{x - wide / 2}" y="{y - 10}" width="{wide}" height="20" rx="9" fill="#eee" '
            f'stroke="#999"/><text x="{x}" y="{y + 4}" text-anchor="middle">{text}</text>'
        )
    end = columns[message.receiver]
    middle, wide = (x + end) / 2, _LETTER * len(message.text)
    # A white box, so that no lifeline crosses the text.
    return (
        _arrow(x, end, y + 5)
        + f'<rect x="{middle - wide / 2}" y="{y - 9}" width="{wide}" height="12" fill="white"/>'
        f'<text x="{middle}" y="{y + 1}" text-anchor="middle">{text}</text>'
    )


def _draw(options: Namespace) -> None:
    check_file(options.output, options.vcd)
    wave = Waveform(options.vcd)
    count = wave.cycles - options.first if options.cycles is None else options.cycles
    write_file(options.output, draw(wave, options.first, count, options.title).encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "sim.waves.sequence",
        "Draws the messages between warps, trap unit, barriers, stack and host in a waveform of the "
        "whole machine, as SVG.",
        "waveforms/trap.vcd -o trap.svg --first 200 --cycles 440",
    )
    parser.add_argument(
        "vcd", type=Path, help="a waveform that sim.run, or the testbench sm, trap or esr, wrote"
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="CYCLE", help="first cycle (default: 0)"
    )
    parser.add_argument(
        "--cycles", type=int, metavar="COUNT", help="number of cycles (default: to the end)"
    )
    parser.add_argument("--title", default="", help="title above the diagram (default: none)")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="SVG", help="the file to write"
    )
    return parser.run(arguments, _draw, exits=False)


if __name__ == "__main__":
    sys.exit(main())
