"""From text to machine code and back: disassembler, assembler, cubin files.

A program passes through three shapes. An :class:`~sim.toolchain.cubin.object_file.ObjectFile` is a cubin in
memory: sections, symbols, relocations. Assembly text is one in a form to read and write. A
:class:`~sim.toolchain.module.Module` is a program ready to be placed in memory::

    text --assembler--> ObjectFile --elf_writer--> file
         <--listing---             <--elf_reader--
                        ObjectFile --cubin--> Module

=============================== ==============================================================================
module                          content
=============================== ==============================================================================
assembly                        the assembler: from text to an object file; an instruction word as text
listing                         from object files and words to text
cubin                           cubins: read, written, linked, made a program
ptx, compiler, from_ptx         PTX: its front end, its compiler, both before the assembler
runtime                         functions that compiled code leaves to a driver
cuda, from_cuda                 NVIDIA's compilers, where they are installed; programs in CUDA C++
module                          a program ready to be placed in memory
reachability                    which code of a module a kernel can reach
grammar                         what all parsers share
=============================== ==============================================================================
"""
