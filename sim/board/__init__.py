"""The machine on a board: the host's side of its serial line.

:mod:`~sim.board.frames` is the line's language, :mod:`~sim.board.link` asks and repeats until there is an answer,
:mod:`~sim.board.machine` runs launches there as :mod:`sim.machine.hardware` does in simulation, and
:mod:`~sim.board.placing` fits them into the board's memory. :mod:`~sim.board.stand_in` is a board in simulation behind
a pseudo-terminal.
"""
