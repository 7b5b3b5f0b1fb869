"""Endless random programs for ``python -m sim.fuzz``: each runs on the hardware, in lockstep with
the warp model.

========  =============================================================================================================
file      content
========  =============================================================================================================
cases     a case: a program and its surroundings, made from a seed and a number alone
player    runs a case on the hardware; returns the failure and the coverage
coverage  which instructions were executed in which states of their warp: as a table, as a page
store     the results of a campaign, in an SQLite file; a campaign continues where it ended
campaign  many cases, on all cores or on a cluster
========  =============================================================================================================
"""
