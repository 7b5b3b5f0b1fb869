"""From text to machine code and back: disassembler, assembler, cubin files."""
