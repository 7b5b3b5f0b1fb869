"""Which tests kill mutants of the hardware; mutants that do the same; the tests of ``sim.mutate``."""
