"""Cubins: NVIDIA's ELF files of machine code, in memory and as bytes.

=============================== ====================================================================
module                          content
=============================== ====================================================================
object_file                     an object file in memory: sections, symbols, relocations
elf_reader, elf_writer          read and write object files as ELF files
nvinfo, line_table              records for the loader; source lines
loader                          builds a program that can be placed in memory
linking, relocation             complete a relocatable file
joining                         merges several relocatable files
=============================== ====================================================================
"""
