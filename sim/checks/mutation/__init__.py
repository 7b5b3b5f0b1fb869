"""Mutants of the hardware and of host code: one small change of a source each, which its tests must
detect.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
mutants         the possible changes of a source file, in order, each with a key that does not contain its line
covering        which tests run which lines of host code
units           the tests and netlists of each unit, and mutants that are known to be equivalent
judge           the check of one mutant, in a separate process: its tests, or its netlist
preloading      imports modules once before a process forks for each mutant
trial           a copy of the project with a mutant, and the mutant's result
store           the results, in a file of SQLite
==============  =======================================================================================================
"""
