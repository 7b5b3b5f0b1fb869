"""Tests of assembler, disassembler, object files, linker and schedules."""
