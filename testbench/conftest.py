"""What all tests share."""

import gc

gc.set_threshold(100_000, 20, 20)   # designs are large, live as long as their test, and are not garbage
