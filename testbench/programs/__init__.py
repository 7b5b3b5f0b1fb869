"""Real programs: kernels in PTX, each as NVIDIA's assembler compiled it at -O0 and at -O3, and in ``manifest.toml`` how
they are run. :mod:`sim.kernels` reads it, and knows what they must leave in memory.
"""
