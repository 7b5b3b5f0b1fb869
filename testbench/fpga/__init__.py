"""Tests of FPGA boards, their memory and video."""
