"""Computes the largest number of each row minus the row's mean."""

from tinygrad import Tensor  # type: ignore[import-not-found]

rows = Tensor([[float((7 * x + y) % 16) for x in range(16)] for y in range(16)]).realize()
assert (rows.max(axis=1) - rows.mean(axis=1)).numpy()[0] == 7.5
