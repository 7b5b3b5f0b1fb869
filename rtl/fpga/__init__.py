"""What goes onto an FPGA: frames around units, to measure them."""
