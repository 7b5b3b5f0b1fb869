"""Modules that all parts of ``sim`` use, and that depend on none of them.

==================  =================================================================================
module              content
==================  =================================================================================
command             command lines: options, errors of users, files written as a whole, exit codes
entry               how a command begins; messages for missing packages
interrupt           Ctrl-C and SIGTERM: the progress of a command
activity            what a command that is silent for long is at
children            the programs that a command runs; they end with it
scratch             temporary folders
garbage_collection  Python's collector, held off while very many objects are made
alignment           addresses rounded up
==================  =================================================================================
"""
