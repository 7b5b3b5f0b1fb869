"""What goes onto an FPGA.

:mod:`~rtl.fpga.boards` has the boards' tops: :mod:`~rtl.fpga.pll` makes the clock, :mod:`~rtl.fpga.machine` is all the
rest but the pads: the machine and its memory (:mod:`~rtl.fpga.block_memory`) behind a :mod:`~rtl.fpga.gate`, the host's
link (:mod:`~rtl.fpga.uart`, :mod:`~rtl.fpga.frames`, :mod:`~rtl.fpga.link`), :mod:`~rtl.fpga.registers` of the board
and :mod:`~rtl.fpga.lamps`. The rest are frames around units, to measure them (:mod:`~rtl.fpga.harness`,
:mod:`~rtl.fpga.units`, :mod:`~rtl.fpga.bare`) and to take them elsewhere (:mod:`~rtl.fpga.flat`).
"""
