"""The PTX front end: parses text to a typed program with resolved names and checked operands.

=================== ================================================================================
module              content
=================== ================================================================================
module              the typed program, which the compiler and the PTX interpreter read
front_end           translates text to it: modules, functions, bodies
ptx.lark, syntax    the grammar, and the syntax tree of a text
names, expressions  scopes; evaluation of constants and of sums with a name
declarations        registers, variables and their initial values, parameters
instruction_table   the instructions: a row for each way to write one
modifiers           places for modifiers in these rows, and the meaning of each word
operand_kinds       places for operands in these rows
forms               the rows of an opcode in a version of PTX
machines            the first machine of each later instruction; texture instructions
instructions        modifiers decoded by that table
operands, special   operands resolved and checked; special registers
operand_selectors   operands of video instructions that are parts of registers
control             branches and calls
call_graph          the functions that a kernel may call, and the shared variables it uses
joining             merges several texts as a linker does
copies              copies in local space: of parameters whose address is taken, and of module
                    registers
=================== ================================================================================
"""
