"""The debugger: the tasks of a driver and a debugger on a host, through registers, a trap handler
and memory.

:mod:`~sim.debugger.driver` has the register sequences of the open drivers,
:mod:`~sim.debugger.breakpoints` patches the program, :mod:`~sim.debugger.machine` stops and resumes
warps, :mod:`~sim.debugger.addresses` parses a user's addresses, :mod:`~sim.debugger.views` formats
the state that the trap handler saved, :mod:`~sim.debugger.commands` is the command language,
:mod:`~sim.debugger.session` the session of a user.
"""
