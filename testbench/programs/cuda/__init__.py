"""Kernels of CUDA C++, compiled by NVIDIA's compilers, with the results of the same source on a
host.
"""
