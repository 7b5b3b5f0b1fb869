"""Kernels of CUDA C++, as NVIDIA's compilers made them and with what the same source leaves on a host."""
