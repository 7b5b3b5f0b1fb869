"""What passes ask of a function: dominators, loops, liveness, divergence."""
