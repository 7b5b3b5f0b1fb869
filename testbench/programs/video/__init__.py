"""Video instructions as NVIDIA's assembler has compiled them: README.md."""
