"""How the kernels of CUDA C++ are run, and what each must leave in its buffers: a witness beside the models.

``manifest.toml`` has the launches, written as that of the other kernels. ``NAME.json`` has the 32-bit words that a host
compiler's code of the same source left in every buffer; a label stands behind the kernel's name: ``NAME.LABEL.json``.
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
"""What each kernel was compiled for."""
CUDA_RUNS: dict[str, Run] = read((_HERE / "manifest.toml").read_text(), _HERE)
"""All runs by name."""


def expectation_file(run: Run) -> Path:
    """Where it stands what a run leaves: a list of 32-bit words by name of buffer, as JSON."""
    return run.folder / f"{run.name.replace(':', '.')}.json"


def complaints(run: Run, finished: Launch, memory: Memory | None = None) -> list[str]:
    """What is wrong in the buffers after a launch, a line each: in ``memory``, by default in the launch's own."""
    left, expected = memory or finished.memory, json.loads(expectation_file(run).read_text())
    if expected.keys() != finished.buffers.keys():
        return [f"{run.name}: buffers {', '.join(finished.buffers)}, not {', '.join(expected)}"]
    return [
        f"{run.name}: {name}: {line}"
        for name, words in expected.items()
        for line in Exact(np.array(words, "<u4")).complaints(left.read(*finished.buffers[name]))
    ]
