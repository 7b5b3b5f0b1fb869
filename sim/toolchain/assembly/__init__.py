"""The assembly language: from text to an object file, and one instruction word as text.

=============================== ==============================================================================
module                          content
=============================== ==============================================================================
assembler                       the language, and what makes an object file of a program
sass.lark, source               its grammar, and the statements that a text has
statements                      statements made without text, for the compiler
program, scope                  statements sorted by what they belong to; what names mean
encoding, mnemonics, operands   from an instruction's text to its word
code_builder, data_builder      from statements to bytes
schedule, latency               control codes for instructions that have none
records                         what a file says of its functions
control_text                    control codes as text
spelling, float_text            from a word to the text of NVIDIA's disassembler
=============================== ==============================================================================
"""
