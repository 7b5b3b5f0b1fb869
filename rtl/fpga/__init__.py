"""What goes onto an FPGA.

=============================  ===================================================================
boards.py                      boards, and their tops
machine.py                     all of a board but clock and pads: the machine, memory, the link
uart.py, frames.py, link.py    the host's link
registers.py, lamps.py         registers of the board; what its lamps show
gate.py                        keeps a reset of the machine and memory's answers apart
block_memory.py                memory of block RAM
sdram.py, sdram_pads.py        an SDRAM chip; its pads and the phase of its clock
video.py, tmds.py              a picture in memory as a screen's signals
video_pads.py                  its pads
crossing.py                    a queue from one clock to another
pll.py, derived_clocks.py      the machine's clock by a PLL; several clocks of one PLL, with phases
global_net.py                  a reset on one of the device's global nets
units.py, harness.py, bare.py  units between registers, for ``python -m sim.fpga``
flat.py                        the machine with plain ports, for other flows
=============================  ===================================================================
"""
