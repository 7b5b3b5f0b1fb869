"""Assembler, disassembler, cubins, schedules."""
