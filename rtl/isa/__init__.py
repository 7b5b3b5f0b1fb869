"""The machine language of sm_50 as data.

One table has, for every instruction: opcode bits, fields, modifiers and operands, whether it has a
guard, the registers, predicates and CC that it reads and writes, and its pipe. Hardware decoders,
the disassembler, the assembler and the manual read this table; nothing repeats it.

==================== ===================================================================
module               content
==================== ===================================================================
syntax               what a description is made of: fields, modifiers, operands, forms
fields               fields and operands that many instructions share
control              control flow, traps, barriers, special registers
integer              integer arithmetic, logic, shifts, comparisons, moves
video                arithmetic on bytes, halves and words with a second operation
floating             arithmetic and comparisons in single precision
double               the same in double precision
conversion           conversions, bit counts, MUFU
functions            how MUFU's functions are approximated
function_table       their coefficients, made by a script
memory               loads, stores, atomics, shuffles
table                all of them, and the lookup of a word
effects              what an instruction reads and writes
legality             which words are illegal: what the machine refuses
absent               names of instructions that are in none of the tables, and why
kinds                vocabularies of fields
condition            CC and its 32 tests
special_registers    numbers and names of special registers
errors               warp error codes
tokens               call/return stack tokens
control_code         stall counts, scoreboards: the word that leads each group
==================== ===================================================================
"""
