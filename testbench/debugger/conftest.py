"""The machine for tests of the debugger."""

import pytest

from rtl.params import PRESETS
from sim.engine import CompiledEngine
from sim.machine.hardware import Hardware


@pytest.fixture(scope="module")
def hardware() -> Hardware:
    """A machine for all tests of a file, because its construction takes long."""
    return Hardware(PRESETS["tiny"], CompiledEngine)
