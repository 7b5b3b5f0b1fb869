"""From text to machine code and back: disassembler, assembler, cubin files.

A program passes through three shapes. An :class:`~sim.toolchain.object_file.ObjectFile` is a cubin in memory: sections,
symbols, relocations. Assembly text is one in a form to read and write. A :class:`~sim.toolchain.module.Module` is a
program ready to be placed in memory::

    text --assembler--> ObjectFile --elf_writer--> file
         <--listing---             <--elf_reader--
                        ObjectFile --cubin--> Module

=============================== ==============================================================================
module                          content
=============================== ==============================================================================
module, object_file             the shapes
cubin, linking, relocation      from object file to module, relocatable files linked on the way
joining                         several relocatable files as one
elf_reader, elf_writer, nvinfo  from bytes to object file and back
reach                           which code of a module a kernel can come to
assembler                       the language, and what makes an object file of a program
sass.lark, source, grammar      its grammar and statements; what all parsers share
program, scope                  statements sorted by what they belong to; what names mean
encoding, mnemonics, operands   from an instruction's text to its word
code_builder, data_builder      from statements to bytes
schedule, latency               control codes for instructions that have none
records, control_text           what a file tells of its functions; control codes as text
spelling, disassembly           from words to NVIDIA's text
refusals                        what this machine refuses, and why
listing, *_listing              from object files to text that assembles
ptx, compiler, from_ptx         PTX: its front end, its compiler, both before the assembler
cuda, from_cuda                 NVIDIA's compilers, where they are installed; programs in CUDA C++
=============================== ==============================================================================
"""
