"""PTX: from text to a typed program with every name resolved and every operand checked.

=================== ===========================================================================================
module              content
=================== ===========================================================================================
module              the typed program: what the compiler and the PTX interpreter read
front_end           from text to it: modules, functions, bodies
ptx.lark, syntax    the grammar, and the tree it makes of a text
names, expressions  scopes; what constants and sums of names are worth
declarations        registers, variables and their first values, parameters
forms               the table of instructions: their modifiers and operands
machines            what later machines have, and which one first; instructions on textures
instructions        modifiers decoded by that table
operands, special   operands resolved and checked; special registers
control             branches and calls
reach               what a kernel may call, and the shared variables it uses
joining             several texts as one, as a linker has it
copies              parameters whose addresses are taken, registers of modules: both have copies in local space
=================== ===========================================================================================
"""
