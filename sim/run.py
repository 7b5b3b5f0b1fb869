"""Runs a kernel: ``python -m sim.run PROGRAM ...``.

Exit code 0: the kernel ended. 1: an error, a trap or the limit stopped it. 2: it could not be run;
one line on stderr has the reason. 130: Ctrl-C stopped it; the positions of its warps are printed,
waveform and timelines end there, and no results are written.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from rtl.isa.errors import WarpError
from rtl.layouts import LaunchRejection
from sim.board.machine import Board
from sim.engine import ENGINES, Engine, chosen_engine
from sim.firmware.switching import GridSwitch
from sim.launch import Launch, with_trap_handler
from sim.launch.memory import Memory
from sim.launch.programs import SUFFIXES, read_program
from sim.launch_options import (
    BOARD,
    MODEL,
    LaunchOptions,
    add_launch_options,
    check_size,
    number_from_one,
    prepared,
)
from sim.machine.base import BaseMachine, HardwareResult, RunInterrupted
from sim.machine.hardware import Hardware
from sim.machine.host import Driver
from sim.machine.timeline import Timeline
from sim.machine.warp_state import WarpState, state_of
from sim.model.warp.bounds import Bounds
from sim.model.warp.model import Result, WarpModel
from sim.report.error_status import decode, registers_of
from sim.report.output import output_of
from sim.report.run import describe
from sim.report.timeline import konata, page, trace
from sim.runner import (
    WARP_MODEL,
    Outcome,
    board_difference,
    board_text,
    engine_text,
    outcome_of,
    run_model,
)
from sim.support.command import CommandError, Parser, check_file, print_text, write_file
from sim.support.interrupt import Interrupted, deferred
from sim.waves.fst import FST, check_fst, is_fst

__all__ = ["RunError", "RunOptions", "hints", "main", "results", "rounded"]

_LIMIT = 10_000_000


_UNTIL_THEN = ", up to the interruption"
_TIMELINES = {
    "timeline": "a page of HTML",
    "trace": "a trace for Perfetto (JSON)",
    "konata": "a log for Konata",
}


_OF_ADDRESSES = (
    WarpError.MMU_FAULT,
    WarpError.OOR_ADDR,
    WarpError.MISALIGNED_ADDR,
    WarpError.INVALID_ADDR_SPACE,
)
"""Errors for which the hardware does not keep the address."""
_HINT = "hint          --engine model --bounds names the thread and the address"


class RunError(CommandError):
    """A run that cannot be started. The message is one line with the reason."""


@dataclass(frozen=True)
class RunOptions(LaunchOptions):
    """The options of the command line. ``None``: not given."""

    handler: str | None
    max_cycles: int
    json: str | None
    vcd: str | None
    fst: str | None
    timeline: str | None
    trace: str | None
    konata: str | None
    check: bool
    bounds: bool
    switch: int | None

    @property
    def waveform(self) -> Path | None:
        """The path of the waveform, None without one."""
        name = self.vcd if self.fst is None else self.fst
        return None if name is None else Path(name)


def _parser() -> Parser:
    """Returns the parser of the command line."""
    parser = Parser(
        "sim.run",
        "Runs a kernel and reports what it left in its buffers.",
        "testbench/programs/k08_fib_recursion.O3.cubin --block 12 --arg 'buf:OUT=u32[12]' --check",
    )
    add_launch_options(
        parser, (*ENGINES, MODEL), "what simulates the hardware; model: the warp model instead"
    )
    parser.add_argument(
        "--handler",
        metavar="FILE",
        help=f"a trap handler: a kernel without parameters, {' '.join(SUFFIXES[:3])}",
    )
    parser.add_argument(
        "--max-cycles",
        metavar="N",
        type=number_from_one,
        default=_LIMIT,
        help=f"give up after N cycles (default: {_LIMIT})",
    )
    parser.add_argument("--json", metavar="OUT", help="write the results to a file")
    waveform = parser.add_mutually_exclusive_group()
    waveform.add_argument(
        "--vcd", metavar="FILE", help="write a waveform (not with the engine model)"
    )
    waveform.add_argument(
        "--fst",
        metavar="FILE.fst",
        help="write it as FST, a tenth of the size or less; needs vcd2fst, which comes with GTKWave",
    )
    for name, what in _TIMELINES.items():
        parser.add_argument(
            f"--{name}", metavar="FILE", help=f"write what every warp did in every cycle, as {what}"
        )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare every instruction with the warp model, on a board memory at the end (not "
        "with the engine model)",
    )
    parser.add_argument(
        "--bounds",
        action="store_true",
        help="report accesses outside of all buffers, variables and constants, to the byte (exit code "
        "1; only with the engine model)",
    )
    parser.add_argument(
        "--switch",
        metavar="N",
        type=number_from_one,
        help="take the grid off the machine after N cycles, all its warps saved to memory, and let it "
        "continue (not with the engine model, on a board, with a handler or a timeline)",
    )
    return parser


def _check(options: RunOptions) -> None:
    """Raises RunError for options that cannot be combined or served."""
    inputs = [options.program] if options.handler is None else [options.program, options.handler]
    if options.json is not None:
        check_file(options.json, *inputs)
    timelines = {name: path for name in _TIMELINES if (path := getattr(options, name)) is not None}
    simulated = [name for name in ("vcd", "fst") if getattr(options, name) is not None] + list(
        timelines
    )
    switches = ["switch"] * (options.switch is not None)
    for flag in (*simulated, *["check"] * options.check, *switches):
        if options.engine == MODEL:
            raise RunError(f"--{flag} needs hardware, which the engine model does not have")
    for flag in (*simulated, *switches):
        if options.engine == BOARD:
            raise RunError(f"--{flag} needs a simulation, which a board is not")
    if options.bounds and options.engine != MODEL:
        raise RunError(
            "--bounds needs --engine model: the hardware's memory comes in lines of 64 bytes"
        )
    for flag in (*timelines, *["handler"] * (options.handler is not None)):
        if switches:
            raise RunError(f"--switch and --{flag} cannot be combined")
    for path in timelines.values():
        check_file(path, *inputs)
    if options.fst is not None and not is_fst(Path(options.fst)):
        raise RunError(f"--fst {options.fst}: the name of an FST ends in {FST}")
    if (waveform := options.waveform) is not None:
        check_file(waveform, *inputs)
        check_fst(waveform)


def _error_status(
    registers: Mapping[str, int], warps: Mapping[int, WarpState]
) -> dict[str, object]:
    """Returns the error status for JSON; empty if there was no event."""
    status = decode(registers)
    if decoded := status.decoded():
        decoded["warps"] = {str(slot): state.decoded() for slot, state in warps.items()}
    return decoded


def _of_model(machine: WarpModel) -> dict[str, object]:
    return _error_status(
        registers_of(machine), {warp.slot: state_of(warp) for warp in machine.live}
    )


def _of_hardware(result: HardwareResult) -> dict[str, object]:
    decoded = _error_status(result.registers, result.warps)
    if result.rejection is not LaunchRejection.NONE:
        decoded["rejection"] = result.rejection.name
    return decoded


def _words(content: bytes) -> list[int]:
    """Returns a buffer as 32-bit numbers, the last one padded with zeros."""
    content += bytes(-len(content) % 4)
    return [int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]


def results(
    launch: Launch,
    memory: Memory,
    status: str,
    cycles: int,
    instructions: int,
    error_status: dict[str, object],
) -> dict[str, object]:
    """Returns the results that ``--json`` writes."""
    buffers = {
        name: _words(memory.read(base, size)) for name, (base, size) in launch.buffers.items()
    }
    output = output_of(memory, launch.output)
    printed = {} if launch.output is None else {"output": output.text, "assertions": output.failed}
    return {
        "status": status,
        "cycles": cycles,
        "instructions": instructions,
        "buffers": buffers,
        **printed,
        "esr": error_status,
    }


def rounded(options: LaunchOptions, launch: Launch) -> list[str]:
    """Returns a line for each size that is larger in the launch than in the options."""
    sizes = (("crs", options.crs, launch.crs), ("local", options.local, launch.local))
    return [
        f"rounded up    --{name} {asked} to {given} bytes"
        for name, asked, given in sizes
        if asked is not None and asked != given
    ]


def hints(outcome: Outcome) -> list[str]:
    """Returns hints on how to get more information about the error that stopped hardware."""
    if outcome.error is None or outcome.error.error not in _OF_ADDRESSES:
        return []
    return [_HINT]


def _report(launch: Launch, memory: Memory, text: str) -> None:
    """Prints what the kernel has printed, then the run's outcome."""
    output = output_of(memory, launch.output)
    if output.text:
        print_text(output.text if output.text.endswith("\n") else f"{output.text}\n")
    print_text("\n".join([text, *output.lines()]) + "\n")


def _on_model(options: RunOptions, launch: Launch) -> dict[str, object]:
    """Runs on the warp model; prints the outcome, returns the results."""
    bounds = Bounds(launch) if options.bounds else None
    params, name = options.params, f"{options.machine_name}, {WARP_MODEL}"
    machine = WarpModel(launch, warps=params.warps, stack_tokens=params.stack_tokens)
    machine.bounds = bounds
    try:
        with deferred(), tqdm(unit=" instructions", disable=None, leave=False) as bar:
            result = run_model(machine, options.max_cycles, bar.update)
    except Interrupted as request:
        request.after = f"after {machine.instructions:,} instructions"
        stopped = Result("interrupted", machine.instructions)
        _report(launch, machine.memory, describe(machine, stopped, name))
        raise
    outside = [] if bounds is None else list(bounds.found.values())
    if outside:
        result = replace(result, status="error")
    _report(
        launch,
        machine.memory,
        "\n".join([describe(machine, result, name), *(one.line() for one in outside)]),
    )
    written = results(
        launch,
        machine.memory,
        result.status,
        result.instructions,
        result.instructions,
        _of_model(machine),
    )
    return written | ({"outside": [one.decoded() for one in outside]} if bounds is not None else {})


def _timed(
    machine: BaseMachine, launch: Launch, options: RunOptions, driver: Driver | None = None
) -> HardwareResult:
    """Runs a launch, with a progress bar on a terminal."""
    with tqdm(unit=" cycles", unit_scale=True, disable=None, leave=False) as bar:
        return machine.run(launch, options.max_cycles, bar.update, driver=driver)


def _on_board(options: RunOptions, launch: Launch, board: Board) -> dict[str, object]:
    """Runs on a board; prints the outcome, returns the results.

    With ``--check``, the final memory is compared with the warp model's.
    """
    difference, name = None, f"{board.preset}, {board_text(board)}"
    try:
        result = _timed(board, launch, options)
    except RunInterrupted as request:
        outcome = outcome_of(launch, board, request.result, name=name)
        _report(launch, board.memory, outcome.report)
        raise
    if options.check and result.status == "ok":
        board.forget()
        with deferred(), tqdm(unit=" instructions", disable=None, leave=False) as bar:
            difference = board_difference(board, launch, bar.update)
    outcome = outcome_of(launch, board, result, difference, name)
    _report(launch, board.memory, "\n".join([outcome.report, *hints(outcome)]))
    written = results(
        launch,
        board.memory,
        outcome.status,
        result.cycles,
        result.instructions,
        _of_hardware(result),
    )
    return written | ({"difference": difference} if difference is not None else {})


def _on_hardware(options: RunOptions, launch: Launch, engine: type[Engine]) -> dict[str, object]:
    """Runs on the simulated hardware; prints the outcome, returns the results."""
    timeline = (
        Timeline(options.params) if any(getattr(options, name) for name in _TIMELINES) else None
    )
    hardware = Hardware(
        options.params,
        engine,
        check=options.check,
        vcd=options.waveform,
        watched=(lambda _sm: ()) if timeline is None else timeline.watched,
    )
    switch = None
    if options.switch is not None:
        switch = GridSwitch(launch, options.switch, options.max_cycles)
        launch = switch.launch
    try:
        result = _timed(hardware, launch, options, None if switch is None else switch.drive)
        if switch is not None and not hardware.differs:
            if switch.failure:
                raise RunError(f"--switch {options.switch}: {switch.failure}")
            if not switch.left:
                print_text(
                    f"switched      not: the grid has ended before, after {hardware.cycles:,} cycles\n"
                )
            else:
                print_text(
                    f"switched      the grid is off the machine after {switch.cycles:,} cycles, and continues\n"
                )
                print_text(
                    "".join(f"saved         {line}\n" for line in switch.lines(hardware.memory))
                )
                launch = switch.resumed(hardware.memory)
                hardware = Hardware(options.params, engine, check=options.check)
                result = _timed(hardware, launch, options)
    except RunInterrupted as request:
        _tell(options, launch, hardware, engine, request.result, timeline)
        raise
    outcome = _tell(options, launch, hardware, engine, result, timeline)
    written = results(
        launch,
        hardware.memory,
        outcome.status,
        result.cycles,
        result.instructions,
        _of_hardware(result),
    )
    return written | ({"difference": outcome.difference} if outcome.difference is not None else {})


def _tell(
    options: RunOptions,
    launch: Launch,
    hardware: Hardware,
    engine: type[Engine],
    result: HardwareResult,
    timeline: Timeline | None,
) -> Outcome:
    """Prints and returns a run's outcome, and writes its timelines."""
    name = f"{options.machine_name}, {engine_text(engine)}"
    outcome = outcome_of(launch, hardware, result, name=name)
    _report(launch, hardware.memory, "\n".join([outcome.report, *hints(outcome)]))
    if options.waveform is not None:
        print_text(
            f"waveform      {options.waveform}{_UNTIL_THEN * (result.status == 'interrupted')}\n"
        )
    if timeline is not None:
        timeline.finish(hardware.cycles, result.cycles)
        _write_timelines(options, timeline, _UNTIL_THEN * (result.status == "interrupted"))
    return outcome


def _write_timelines(options: RunOptions, timeline: Timeline, note: str) -> None:
    """Writes the requested timelines, and prints their names, each with a note."""
    title = f"{Path(options.program).name}, preset {options.machine_name}"
    for name, path, write in (
        ("timeline", options.timeline, lambda: page(timeline, title)),
        ("trace", options.trace, lambda: trace(timeline)),
        ("konata", options.konata, lambda: konata(timeline)),
    ):
        if path is not None:
            write_file(path, write().encode())
            print_text(f"{name:13} {path}{note}\n")


def _work(options: RunOptions) -> int:
    _check(options)
    board = options.board()
    handler = None if options.handler is None else read_program(options.handler)
    _, launch = prepared(
        options,
        lambda launch: launch if handler is None else with_trap_handler(launch, handler),
        board,
    )
    check_size(launch, options, board)
    print_text("".join(f"{line}\n" for line in rounded(options, launch)))
    if board is not None:
        written = _on_board(options, launch, board)
    elif options.engine == MODEL:
        written = _on_model(options, launch)
    else:
        written = _on_hardware(options, launch, chosen_engine(options))
    if options.json is not None:
        write_file(options.json, f"{json.dumps(written)}\n".encode())
    return 0 if written["status"] == "ok" else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return _parser().run(arguments, lambda options: _work(RunOptions(**vars(options))))


if __name__ == "__main__":
    sys.exit(main())
