"""The machine on a board: the host's side of its serial line.

:mod:`~sim.board.frames` implements the frame format, :mod:`~sim.board.link` sends requests and
repeats them until they are answered, :mod:`~sim.board.machine` runs launches on the board as
:mod:`sim.machine.hardware` does in simulation, and :mod:`~sim.board.placing` fits them into the
board's memory. :mod:`~sim.board.stand_in` simulates a board behind a pseudo-terminal.
"""
