"""Kernels that draw: ``python -m sim.demo mandelbrot`` and ``life``.

A picture is a byte a pixel in global memory, as a board's video reads it (:mod:`rtl.fpga.video`).
:mod:`~sim.demo.scenes` has the pictures and the launches of their kernels, ``programs`` the
kernels; :mod:`~sim.demo.machine` runs them, :mod:`~sim.demo.picture` shows a picture in a terminal
or writes it to a file, :mod:`~sim.demo.command` is the command.
"""
