"""From object files and words to text.

=============================== ==============================================================================
module                          content
=============================== ==============================================================================
listing                         a cubin as assembly text that assembles to the same cubin
code_listing, data_listing      its code; its constants and variables
disassembly                     bare machine code, a line for each instruction
refusals                        what this machine refuses of sm_50, and why
=============================== ==============================================================================
"""
