"""All cases of the trap testbench."""

from testbench.trap.case import TrapCase
from testbench.trap.cases_breakpoint import BREAKPOINTS
from testbench.trap.cases_host import HOSTS
from testbench.trap.cases_return import RETURNS

_GROUPS = (RETURNS, BREAKPOINTS, HOSTS)
CASES: dict[str, TrapCase] = {name: case for group in _GROUPS for name, case in group.cases.items()}
"""All cases, by name."""
assert len(CASES) == sum(len(group.cases) for group in _GROUPS)
