"""The machine that debuggers work on."""

import pytest

from rtl.params import PRESETS
from sim.engine import CompiledEngine
from sim.machine.hardware import Hardware


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    """One for all tests of a file: it takes long to make."""
    return Hardware(PRESETS["tiny"], CompiledEngine)
