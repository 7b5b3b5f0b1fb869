"""The machine on a board: the host's side of its serial line.

:mod:`~sim.board.frames` is the line's format, :mod:`~sim.board.link` sends requests and repeats
them until there is an answer, :mod:`~sim.board.machine` runs launches there as
:mod:`sim.machine.hardware` does in simulation, and :mod:`~sim.board.placing` fits them into the
board's memory. :mod:`~sim.board.stand_in` simulates a board behind a pseudo-terminal.
"""
