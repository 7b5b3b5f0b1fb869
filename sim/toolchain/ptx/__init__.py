"""PTX: from text to a typed program with every name resolved and every operand checked.

=================== ===========================================================================================
module              content
=================== ===========================================================================================
module              the typed program: what the compiler and the PTX interpreter read
front_end           from text to it: modules, functions, bodies
ptx.lark, syntax    the grammar, and the tree it makes of a text
names, expressions  scopes; what constants and sums of names are worth
declarations        registers, variables and their first values, parameters
instruction_table   the instructions: a row for each way to write one
modifiers           places for modifiers in these rows, and what each word means
operand_kinds       places for operands in these rows
forms               the rows of an opcode in a version of PTX
machines            what later machines have, and which one first; instructions on textures
instructions        modifiers decoded by that table
operands, special   operands resolved and checked; special registers
operand_selectors   operands of video instructions that are parts of registers
control             branches and calls
call_graph          the functions that a kernel may call, and the shared variables it uses
joining             several texts as one, as a linker joins them
copies              parameters whose addresses are taken, registers of modules: both have copies in local space
=================== ===========================================================================================
"""
