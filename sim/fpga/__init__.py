"""The machine on FPGAs: bitstreams of boards, the size and speed of units, Verilog for other tools.

=========  ================================================================================
module     content
=========  ================================================================================
command    the command ``python -m sim.fpga``
bitstream  the bitstream of a board: placed and routed with several seeds, packed, loaded
verilog    a unit or the machine as Verilog
ecp5       Yosys and nextpnr for the ECP5
netlist    names of the cells in a netlist of Yosys
=========  ================================================================================
"""
