"""Instruction selection: translates PTX instructions to operations, by groups of PTX opcodes."""
