"""Register allocation: interference, coalescing, coloring, spilling."""
