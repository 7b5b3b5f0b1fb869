"""Kernels in double precision, as NVIDIA's compilers (NVRTC and ptxas 11.8) made them of the sources here."""
