"""All commands under one name: ``warpstack run ...`` is ``python -m sim.run ...``."""

import sys
from collections.abc import Sequence
from importlib import import_module

from sim.support.command import CALLED
from sim.support.entry import begin

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "run": "sim.run",
    "cuda": "sim.cuda.command",
    "debug": "sim.debug",
    "run_tb": "sim.run_tb",
    "profile": "sim.profile",
    "bench": "sim.bench",
    "ptx": "sim.ptx",
    "asm": "sim.asm",
    "dis": "sim.dis",
    "demo": "sim.demo.command",
    "fpga": "sim.fpga.command",
    "board": "sim.board.__main__",
    "prove": "sim.prove",
    "fuzz": "sim.fuzz",
    "mutate": "sim.mutate",
    "waves": "sim.waves.__main__",
    "picture": "sim.waves.picture",
    "sequence": "sim.waves.sequence",
    "manual": "sim.manual",
}
"""The module with the ``main`` of each command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command with the arguments that follow its name; returns its exit code, 2 for an
    unknown command.
    """
    if arguments is None:
        begin()
    name, *rest = [*(sys.argv[1:] if arguments is None else arguments), ""]
    if name in ("-h", "--help"):
        print("usage: warpstack COMMAND ...\n")
        for command, module in COMMANDS.items():
            print(f"  {command:8}  {_first_line(module)}")
        print("\nwarpstack COMMAND --help shows its options.")
        return 0
    if name not in COMMANDS:
        what = f"no command {name}" if name else "a command is missing"
        print(f"warpstack: {what}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    before = CALLED.set(f"warpstack {name}")
    try:
        return import_module(COMMANDS[name]).main(rest[:-1])
    finally:
        CALLED.reset(before)


def _first_line(module: str) -> str:
    """Returns the description of a command, without the example behind the colon."""
    return (import_module(module).__doc__ or "").partition("\n")[0].partition(":")[0].rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
