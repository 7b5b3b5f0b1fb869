"""What goes onto an FPGA beside the machine: frames around units, to measure them; SDRAM and video of boards.

=============================  =====================================================================================
units.py, harness.py, bare.py  units between registers, for ``python -m sim.fpga``
sdram.py, sdram_pads.py        a memory port onto an SDRAM chip; its pads and the phase of its clock
video.py, tmds.py              a picture in memory as what a screen wants; ``video_pads.py``: its pads
crossing.py                    a queue from one clock to another
derived_clocks.py              clocks of one PLL, with phases
=============================  =====================================================================================
"""
