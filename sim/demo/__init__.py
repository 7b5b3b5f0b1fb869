"""Kernels that draw: ``python -m sim.demo mandelbrot`` and ``life``.

A picture is a byte a pixel in global memory, as a board's video reads it (:mod:`rtl.fpga.video`).
:mod:`~sim.demo.scenes` has the pictures and the launches of their kernels, ``programs`` the
kernels, :mod:`~sim.demo.machine` the runner of these, :mod:`~sim.demo.picture` the display of a
picture in a terminal or writes it to a file, :mod:`~sim.demo.command` the command.
"""
