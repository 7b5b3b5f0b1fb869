"""Kernels in double precision, compiled from the sources here by NVIDIA's compilers (NVRTC and
ptxas 11.8).
"""
