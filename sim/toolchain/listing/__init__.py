"""Listings: object files and instruction words as text.

=============================== ====================================================================
module                          content
=============================== ====================================================================
listing                         a cubin as assembly text that assembles to the same cubin
code_listing, data_listing      its code; its constants and variables
disassembly                     bare machine code, a line for each instruction
refusals                        the sm_50 instructions that this machine refuses, with reasons
=============================== ====================================================================
"""
