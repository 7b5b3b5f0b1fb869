"""Modules that all parts of ``sim`` use, and that depend on none of them.

==================  =================================================================================
module              content
==================  =================================================================================
command             command lines: options, errors of users, files written as a whole, exit codes
entry               the start of a command; messages for missing packages
interrupt           Ctrl-C and SIGTERM: the progress of a command
activity            shows the current step of a command that is silent for long
children            the programs that a command runs; they end with it
scratch             temporary folders
garbage_collection  disables Python's collector while very many objects are made
alignment           addresses rounded up
==================  =================================================================================
"""
