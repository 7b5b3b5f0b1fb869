"""Multiplies two matrices."""

from tinygrad import Tensor  # type: ignore[import-not-found]

left = Tensor([[float(8 * y + x) for x in range(8)] for y in range(8)]).realize()
right = Tensor([[float(x == y) * 2 for x in range(8)] for y in range(8)]).realize()
assert (left @ right).numpy()[7][7] == 126
