"""What instructions compute, as formulas of whole numbers: one table, which every executor is compared with.

==============  =======================================================================================================
module          content
==============  =======================================================================================================
integer         sums, products, shifts, logic, comparisons, predicates and CC: what the lanes execute
conversion      bit counts and conversions
double          double precision
functions       error bounds of MUFU's functions
condition       what the tests of CC say of numbers that were compared
inputs          words of a form in all its modes, operands at the edges, threads before and after
==============  =======================================================================================================

The table reads nothing but the fields of a word. It owes nothing to the lanes, to the warp model and to the thread
model, and none of them knows it.
"""
