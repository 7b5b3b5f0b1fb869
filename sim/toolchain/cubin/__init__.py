"""Cubins: NVIDIA's ELF files of machine code, in memory and as bytes.

=============================== ==============================================================================
module                          content
=============================== ==============================================================================
object_file                     an object file in memory: sections, symbols, relocations
elf_reader, elf_writer          from bytes to an object file and back
nvinfo, line_table              records for the loader; lines of the source
loader                          from an object file to a program that can be placed in memory
linking, relocation             a relocatable file is made complete
joining                         several relocatable files as one
=============================== ==============================================================================
"""
