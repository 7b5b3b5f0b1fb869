"""Instruction selection: from PTX to operations, by groups of PTX opcodes."""
