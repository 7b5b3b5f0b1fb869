"""Mutants of the hardware and of host code: one small change of a source each, which its tests have to see.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
mutants         the changes that can be made in a source file, in order, each with a key that does not name its line
covering        which tests run which lines of host code
units           which tests and netlists are of which unit, and mutants that are known to change nothing
judge           what is asked of one mutant, in a process of its own: its tests, or its netlist
trial           a copy of the project in which a mutant stands, and what becomes of it there
store           what was found, in a file of SQLite
==============  =======================================================================================================
"""
