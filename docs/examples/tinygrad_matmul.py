"""Multiplies two matrices with tinygrad.

``DEV=CUDA:PTX python -m sim.cuda -- python docs/examples/tinygrad_matmul.py``
"""

from tinygrad import Tensor

a = Tensor([[0.0, 1, 2], [3, 4, 5]])
b = Tensor([[1.0, 2], [3, 4], [5, 6]])
print(((a @ b).relu() + 1).tolist())
