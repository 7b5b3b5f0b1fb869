"""Fetch: instructions and their constants, from memory to issue.

=============  ==========================================================================
module         content
=============  ==========================================================================
unit           a pc for each warp; whose turn it is; hit or miss
instructions   the instruction cache; a line's words are predecoded when it comes
predecode      a word's kind, and why nobody can execute it, from the instruction table
outcomes       rules of the table for all values of the fields that they look at
resolve        constant operands
constants      the constant cache
loader         lines on their way from memory
records        what the stages hand to each other
=============  ==========================================================================

A group comes six cycles after its warp was redirected, if its line is in the cache and nothing is in the way: it is
looked up, its constants are read one a cycle in four stages, and it leaves. Groups follow each other at one a cycle, or
one in as many cycles as it has constant operands.
"""

from .loader import TAG_BITS
from .predecode import Predecoder, kind_of
from .resolve import indexed_request, indexed_response
from .unit import FetchUnit

__all__ = ["TAG_BITS", "FetchUnit", "Predecoder", "indexed_request", "indexed_response", "kind_of"]
