"""Analyses of a function that passes use: dominators, loops, liveness, divergence."""
