"""Two models that share no code: :mod:`~sim.model.warp`, the machine with masks and stacks, instruction by
instruction; and :mod:`~sim.model.thread`, every thread of the grid by itself."""
