"""Random programs without end, for ``python -m sim.fuzz``: each on the hardware, in lockstep with the warp model.

========  =============================================================================================================
file      content
========  =============================================================================================================
cases     what is played, made from a seed and a number alone
player    plays a case on the hardware; returns the failure, and the coverage
coverage  which instructions met which states of their warp: as a table, as a page
store     what a campaign has found, in a file of SQLite; a campaign continues where it ended
campaign  many cases, on all cores or on a cluster
========  =============================================================================================================
"""
