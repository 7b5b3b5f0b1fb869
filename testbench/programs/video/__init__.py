"""Video instructions, compiled by NVIDIA's assembler: see README.md."""
