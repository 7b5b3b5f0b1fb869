"""Records the images that a CUDA program loads: ``python -m testbench.programs.clients.record PREFIX -- COMMAND``.

Writes them as PREFIX.ptx or PREFIX.cubin, with a number where there are several, and prints how kernels are launched.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rtl.params import PRESETS
from sim.cuda.compilers import JitOptions
from sim.cuda.device import Device
from sim.cuda.server import Server
from sim.cuda.setup import environment
from sim.runner import ModelRunner
from sim.support.command import CommandError, Parser, write_file
from sim.toolchain.module import Module

_MEMORY = 1 << 30
_LIMIT = 1 << 30


class _Recorder(Server):
    """A server that records the images that programs load and link, but not the linked result."""

    def __init__(self, device: Device) -> None:
        self.images: list[bytes] = []
        self._linked: list[bytes] = []
        super().__init__(device)

    def module(self, content: bytes, options: JitOptions) -> Module:
        """See Server."""
        if content not in (*self.images, *self._linked):
            self.images.append(content)
        return super().module(content, options)

    def link(self, inputs: Sequence[tuple[bytes, JitOptions]]) -> bytes:
        """See Server."""
        self.images += [image for image, _ in inputs]
        self._linked.append(super().link(inputs))
        return self._linked[-1]


def _record(prefix: str, command: Sequence[str]) -> None:
    device = Device(ModelRunner(PRESETS["programs"]), _MEMORY, _LIMIT)
    with closing(device.memory), closing(_Recorder(device)) as server:
        done = subprocess.run(
            command, env=os.environ | environment(server.name, command), check=False
        )
    if done.returncode:
        raise CommandError(f"{Path(command[0]).name} ended with {done.returncode}")
    write_new(prefix, server.images)
    for one in device.launches:
        print(f"{one.kernel} grid {one.grid} block {one.block}: {one.outcome.status}")


def write_new(prefix: str, images: Sequence[bytes]) -> None:
    """Writes images, and prints their names; CommandError where one is there already, and none is written."""
    named: dict[str, bytes] = {}
    for number, image in enumerate(images):
        suffix = "cubin" if image.startswith(b"\x7fELF") else "ptx"
        name = f"{prefix}{f'_{number}' if number else ''}.{suffix}"
        named[name] = image.rstrip(b"\0") if suffix == "ptx" else image
    for name in named:
        if Path(name).exists():
            raise CommandError(f"{name}: exists; delete it, or name another PREFIX")
    for name, content in named.items():
        write_file(name, content)
        print(name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns the exit code."""
    parser = Parser(
        "testbench.programs.clients.record",
        "Records the images that a CUDA program loads.",
        "sum -- python numba_sum.py",
    )
    parser.add_argument("prefix", metavar="PREFIX", help="of the files, with their folder")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the program, behind --")
    return parser.run(arguments, lambda options: _record(options.prefix, options.command))


if __name__ == "__main__":
    sys.exit(main())
