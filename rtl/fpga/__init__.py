"""Boards with an FPGA, and harnesses that measure units on one.

=============================  ===================================================================
boards.py                      boards, and their tops
machine.py                     a board without clocks and pads: the machine, memory, the link
uart.py, frames.py, link.py    the host's link
registers.py, lamps.py         registers of the board; states of warps on its lamps
gate.py                        drains the path to memory before the machine is reset
block_memory.py                memory of block RAM
sdram.py, sdram_pads.py        an SDRAM chip; its pads and the phase of its clock
video.py, tmds.py              the framebuffer in memory as a DVI signal
video_pads.py                  its pads
crossing.py                    a queue from one clock domain to another
pll.py, derived_clocks.py      clocks of the machine and of SDRAM by one PLL; those of video
global_net.py                  a reset on one of the device's global nets
units.py, harness.py, bare.py  units between registers, for ``python -m sim.fpga``
flat.py                        the machine with plain ports, for other flows
=============================  ===================================================================
"""
