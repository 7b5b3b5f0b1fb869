"""The debugger: what a driver and a debugger on a host do, with nothing but registers, a trap handler and memory.

:mod:`~sim.debugger.driver` has the register sequences of the open drivers,
:mod:`~sim.debugger.breakpoints` patches the program, :mod:`~sim.debugger.machine` stops and resumes
warps, :mod:`~sim.debugger.addresses` parses a user's addresses, :mod:`~sim.debugger.views` turns
what the trap handler saved into text, :mod:`~sim.debugger.commands` is the command language,
:mod:`~sim.debugger.session` the session of a user.
"""
