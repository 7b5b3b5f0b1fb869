"""Runs of the kernels of CUDA C++, and the results that each must leave in its buffers, independent
of the models.

``manifest.toml`` has the launches, in the same format as that of the other kernels. ``NAME.json``
has the 32-bit words that a host compiler's code of the same source left in every buffer; a label
follows the kernel's name: ``NAME.LABEL.json``.
"""

import json
from pathlib import Path

import numpy as np

from sim.launch import Launch
from sim.launch.memory import Memory
from testbench.kernels.manifest import DEBUG, LEVELS, Run, read
from testbench.kernels.outcome import Exact

_HERE = Path(__file__).parent
CUDA_LEVELS = (*LEVELS, DEBUG)
"""Levels at which each kernel was compiled."""
CUDA_RUNS: dict[str, Run] = read((_HERE / "manifest.toml").read_text(), _HERE)
"""All runs by name."""


def expectation_file(run: Run) -> Path:
    """Returns the file with the results of a run: a list of 32-bit words by name of buffer, as
    JSON.
    """
    return run.folder / f"{run.name.replace(':', '.')}.json"


def complaints(run: Run, finished: Launch, memory: Memory | None = None) -> list[str]:
    """Checks the buffers after a launch, in ``memory`` or by default in the launch's memory: one
    line for each error.
    """
    left, expected = memory or finished.memory, json.loads(expectation_file(run).read_text())
    if expected.keys() != finished.buffers.keys():
        return [f"{run.name}: buffers {', '.join(finished.buffers)}, not {', '.join(expected)}"]
    return [
        f"{run.name}: {name}: {line}"
        for name, words in expected.items()
        for line in Exact(np.array(words, "<u4")).complaints(left.read(*finished.buffers[name]))
    ]
