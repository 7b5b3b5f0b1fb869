"""The toolchain: compilers, assembler, disassembler, cubin files.

A program has three representations. An :class:`~sim.toolchain.cubin.object_file.ObjectFile` is a
cubin in memory: sections, symbols, relocations. Assembly text is its readable and editable form. A
:class:`~sim.toolchain.module.Module` is a program that can be placed in memory::

    text --assembler--> ObjectFile --elf_writer--> file
         <--listing---             <--elf_reader--
                        ObjectFile --cubin--> Module

=============================== ====================================================================
module                          content
=============================== ====================================================================
assembly                        the assembler: assembles text to an object file; prints instruction
                                words
listing                         object files and words as text
cubin                           cubins: reads, writes, links and loads them
ptx, compiler, from_ptx         PTX: its front end, its compiler, both followed by the assembler
runtime                         functions that compiled code expects from a driver
cuda, from_cuda                 NVIDIA's compilers, if they are installed; programs in CUDA C++
module                          a program that can be placed in memory
reachability                    the code of a module that a kernel can reach
grammar                         common parts of all parsers
=============================== ====================================================================
"""
