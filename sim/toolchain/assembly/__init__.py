"""The assembly language: assembles text to an object file, and prints instruction words as text.

=============================== ====================================================================
module                          content
=============================== ====================================================================
assembler                       the language; builds an object file of a program
sass.lark, source               its grammar, and the statements of a text
statements                      statements built without text, for the compiler
program, scope                  statements sorted by their owner; resolution of names
encoding, mnemonics, operands   encode an instruction's text as a word
code_builder, data_builder      translate statements to bytes
schedule, latency               control codes for instructions without them
records                         a file's records about its functions
control_text                    control codes as text
spelling, float_text            print a word as NVIDIA's disassembler does
=============================== ====================================================================
"""
