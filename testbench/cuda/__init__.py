"""CUDA programs on the machine: the libraries and the server with a client in C, and third-party
programs.
"""
