"""Vectors and masks that record the operations on them; an operation is run on them once to derive
its C.

A :class:`Vector` represents a value of every thread and implements numpy's protocols for
arithmetic; a :class:`Mask` represents a mask of threads. Both hold a :class:`RecordedNode`, and
every operation makes a new node from those of its operands. Types are numpy's own: each step asks
numpy which loop it would run.

An operation that needs a known number (an ``if``, an index, a loop over threads), or that has no
translation below, raises :class:`UnrecordableError`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rtl.isa.kinds import FloatRounding
from rtl.params import WARP_THREADS

__all__ = [
    "Mask",
    "RecordedNode",
    "RecordedScalar",
    "UnrecordableError",
    "Vector",
    "as_mask",
    "as_vector",
    "c_type",
    "literal",
]


class UnrecordableError(Exception):
    """An operation without a translation to C."""


@dataclass(eq=False, frozen=True, slots=True)
class RecordedNode:
    """A recorded step. ``text`` is its C, a template with ``{0}``, ``{1}`` for its arguments.

    ``kind`` is one of:

    - ``vector``: a value of each thread, computed from that thread's values;
    - ``mask``: a mask of the warp;
    - ``reduce``: a mask made of a vector;
    - ``gather``: a vector of which each thread takes another thread's element;
    - ``table``: an array of constants;
    - ``row`` and ``input``: an operand that the instruction reads, named by ``text``.
    """

    kind: str
    text: str
    dtype: np.dtype
    arguments: tuple["RecordedNode", ...] = ()
    content: tuple[int | float, ...] = field(default=())


_BOOL, _WORD = np.dtype(np.bool_), np.dtype(np.uint32)
_C_TYPES = {"b": "bool", "u": "u", "i": "i", "f": "f"}


def c_type(dtype: np.dtype) -> str:
    """Returns the name of a type in C."""
    return "bool" if dtype == _BOOL else f"{_C_TYPES[dtype.kind]}{8 * dtype.itemsize}"


def literal(value: Any, dtype: np.dtype) -> str:
    """Returns a number as a C literal."""
    name = c_type(dtype)
    if dtype == _BOOL:
        return "true" if value else "false"
    if dtype.kind == "f":
        pattern = np.array(value, dtype).view(f"<u{dtype.itemsize}")
        return f"bits_as<{name}>((u{8 * dtype.itemsize}){int(pattern):#x}ull)"
    suffix = "ull" if dtype.kind == "u" else "ll"
    number = int(value)
    if number == -1 << 63:
        return "((i64)(1ull << 63))"
    return f"(({name}){number}{suffix})"


def _constant(values: np.ndarray) -> RecordedNode:
    """Returns the node of a vector of known values."""
    if values.ndim > 1 or values.size not in (1, WARP_THREADS):
        raise UnrecordableError(f"an array of shape {values.shape}")
    flat = values.ravel()
    if (flat.view(np.uint8).reshape(len(flat), -1) == flat[:1].view(np.uint8)).all():
        return RecordedNode("vector", literal(flat[0], values.dtype), values.dtype)
    return RecordedNode("vector", "{0}[i]", values.dtype, (_table(values),))


def _table(values: np.ndarray) -> RecordedNode:
    return RecordedNode("table", "", values.dtype, content=tuple(values.ravel().tolist()))


def as_vector(value: Any, dtype: np.dtype | None = None) -> RecordedNode:
    """Returns the node of an operand; a Python number gets the type of the operation."""
    if isinstance(value, Vector):
        node = value.node
    elif isinstance(value, (np.ndarray, np.generic)):
        node = _constant(np.asarray(value))
    elif isinstance(value, (bool, int, float)) and dtype is not None:
        return RecordedNode("vector", literal(value, dtype), dtype)
    else:
        raise UnrecordableError(f"an operand of type {type(value).__name__}")
    return node if dtype is None else _cast(node, dtype)


def _cast(node: RecordedNode, dtype: np.dtype) -> RecordedNode:
    if node.dtype == dtype:
        return node
    if node.dtype.kind == "f" and dtype.kind not in "f":
        raise UnrecordableError(
            "a float made an integer"
        )  # The result is host-specific out of this range.
    text = "({0} != 0)" if dtype == _BOOL else f"(({c_type(dtype)}){{0}})"
    return RecordedNode("vector", text, dtype, (node,))


_ROUNDING = {
    FloatRounding.RM: "FE_DOWNWARD",
    FloatRounding.RP: "FE_UPWARD",
    FloatRounding.RZ: "FE_TOWARDZERO",
}
_INFIX = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_SUMS = {"add": "+", "subtract": "-", "multiply": "*"}
_RELATIONS = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
_OF_FLOATS = {
    "isnan": "({0} != {0})",
    "copysign": "__builtin_copysign{s}({0}, {1})",
    "nextafter": "__builtin_nextafter{s}({0}, {1})",
    "ldexp": "power_of_two_product({0}, {1})",
    "isfinite": "(__builtin_fabs{s}({0}) <= {most})",
    "absolute": "__builtin_fabs{s}({0})",
    "negative": "(-{0})",
}


def _template(name: str, loop: tuple[np.dtype, ...]) -> str:
    """Returns the C template of a universal function of numpy in the loop of these types."""
    first, result = loop[0], loop[-1]
    kind = c_type(result)
    if name in _RELATIONS:
        if len({dtype.kind for dtype in loop[:2]}) > 1:
            raise UnrecordableError(f"{name} of signed and unsigned numbers")
        return f"({{0}} {_RELATIONS[name]} {{1}})"
    if name in _INFIX:
        return f"(({kind})({{0}} {_INFIX[name]} {{1}}))"
    if name == "invert":
        return "(!{0})" if first == _BOOL else f"(({kind})~{{0}})"
    if name in _SUMS and first != _BOOL:
        return f"(({kind})({{0}} {_SUMS[name]} {{1}}))"
    if first.kind == "f":
        if name == "signbit":
            return f"((bits_as<u{8 * first.itemsize}>({{0}}) >> {8 * first.itemsize - 1}) != 0)"
        if name in _OF_FLOATS:
            most = literal(np.finfo(first).max, first)
            suffix = "f" if first.itemsize == 4 else ""
            return _OF_FLOATS[name].replace("{s}", suffix).replace("{most}", most)
    elif first != _BOOL:
        if name in ("left_shift", "right_shift"):
            return f"shift_{name.removesuffix('_shift')}<{kind}>({{0}}, {{1}})"
        if name in ("minimum", "maximum"):
            return f"({{0}} {'<' if name == 'minimum' else '>'} {{1}} ? {{0}} : {{1}})"
        if name == "absolute" and first.kind == "i":
            return f"(({kind})({{0}} < 0 ? -{{0}} : {{0}}))"
        if name == "negative":
            return f"(({kind})-{{0}})"
        if name == "bitwise_count":
            return f"(({kind})__builtin_popcountll((u64)(u{8 * first.itemsize}){{0}}))"
    raise UnrecordableError(f"{name} of {first}")


def _type_of(value: Any) -> Any:
    """Returns an operand's type for numpy's type resolution; Python numbers adapt to the other
    operands.
    """
    if isinstance(value, (Vector, np.ndarray, np.generic)):
        return value.dtype
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, (int, float)):
        return type(value)
    raise UnrecordableError(f"an operand of type {type(value).__name__}")


class Vector(np.lib.mixins.NDArrayOperatorsMixin):
    """A value of every thread, unknown while the operation is recorded."""

    __slots__ = ("node",)
    shape = (WARP_THREADS,)

    def __init__(self, node: RecordedNode) -> None:
        self.node = node

    @property
    def dtype(self) -> np.dtype:
        """The type of an element."""
        return self.node.dtype

    def __len__(self) -> int:
        return WARP_THREADS

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *inputs: Any, out: Any = None, **how: Any
    ) -> "Vector":
        if method != "__call__" or how:
            raise UnrecordableError(f"{function.__name__}.{method}")
        loop = function.resolve_dtypes((*map(_type_of, inputs), *[None] * function.nout))
        template = _template(function.__name__, loop)
        arguments = tuple(
            as_vector(value, dtype) for value, dtype in zip(inputs, loop, strict=False)
        )
        node = RecordedNode("vector", template, loop[-1], arguments)
        return Vector(node if out is None else _cast(node, out[0].dtype))

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, how: Mapping[str, Any]
    ) -> Any:
        if function not in _FUNCTIONS:
            raise UnrecordableError(function.__name__)
        return _FUNCTIONS[function](*args, **how)

    def astype(self, dtype: Any) -> "Vector":
        """Converts to another type, as numpy does."""
        return Vector(_cast(self.node, np.dtype(dtype)))

    def view(self, dtype: Any) -> "Vector":
        """Reinterprets the bits as another type of the same size, as numpy does."""
        to = np.dtype(dtype)
        if to == self.dtype:
            return self
        if to.itemsize != self.dtype.itemsize or _BOOL in (to, self.dtype):
            raise UnrecordableError(f"{self.dtype} seen as {to}")
        between = "({0})" if "f" not in (to.kind, self.dtype.kind) else "bits_as<{0}>"
        return Vector(
            RecordedNode("vector", f"{between.format(c_type(to))}({{0}})", to, (self.node,))
        )

    def copy(self) -> "Vector":
        """Returns the vector itself, since vectors are immutable."""
        return self

    def fused(self, factor: "Vector", addend: Any, rounding: FloatRounding) -> "Vector":
        """Returns self * factor + addend in double precision, rounded once (IEEE 754's
        fusedMultiplyAdd).
        """
        arguments = tuple(
            as_vector(number, np.dtype(np.float64)) for number in (self, factor, addend)
        )
        text = "__builtin_fma({0}, {1}, {2})"
        if rounding is not FloatRounding.RN:
            text = f"fused_rounded({{0}}, {{1}}, {{2}}, {_ROUNDING[rounding]})"
        return Vector(RecordedNode("vector", text, np.dtype(np.float64), arguments))

    def __getitem__(self, index: Any) -> "Vector":
        if not isinstance(index, Vector) or index.dtype.kind not in "iu":
            raise UnrecordableError("a part of a vector")
        return Vector(
            RecordedNode(
                "gather", f"{{0}}[{{1}} & {WARP_THREADS - 1}]", self.dtype, (self.node, index.node)
            )
        )

    def picked(self, rows: np.ndarray) -> Iterator["Vector"]:
        """Yields, for each column of a table, its elements at the indices that this vector holds."""
        for column in rows.T:
            yield Vector(
                RecordedNode(
                    "vector",
                    f"{{0}}[(u64){{1}} < {len(column)} ? {{1}} : 0]",
                    column.dtype,
                    (_table(column), self.node),
                )
            )

    def as_mask(self) -> "Mask":
        """Returns the mask of the threads in which the value is true."""
        if self.dtype != _BOOL:
            raise UnrecordableError("a mask of numbers")
        return Mask(RecordedNode("reduce", "", _WORD, (self.node,)))

    def _unknown(self, *_: Any) -> Any:
        raise UnrecordableError("a number that is not known yet")

    __bool__ = __int__ = __float__ = __index__ = __iter__ = __array__ = _unknown


def _where(condition: Any, first: Any, second: Any) -> Any:
    test = as_vector(condition) if not isinstance(condition, bool) else as_vector(condition, _BOOL)
    if test.dtype != _BOOL:
        test = _cast(test, _BOOL)
    plain = [
        type(value)(0) if isinstance(value, (int, float)) else np.zeros(1, value.dtype)
        for value in (first, second)
    ]
    dtype = np.where(np.zeros(1, np.bool_), *plain).dtype
    return Vector(
        RecordedNode(
            "vector",
            "({0} ? {1} : {2})",
            dtype,
            (test, as_vector(first, dtype), as_vector(second, dtype)),
        )
    )


def _clip(value: Any, lowest: Any, highest: Any) -> Any:
    return np.minimum(np.maximum(value, lowest), highest)


_FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.zeros_like: lambda like, dtype=None: np.zeros(
        WARP_THREADS, like.dtype if dtype is None else dtype
    ),
    np.ones_like: lambda like, dtype=None: np.ones(
        WARP_THREADS, like.dtype if dtype is None else dtype
    ),
}


def as_mask(value: Any) -> RecordedNode:
    """Returns the node of a mask; of a Python number, its low 32 bits."""
    if isinstance(value, Mask):
        return value.node
    if isinstance(value, int):
        return RecordedNode("mask", f"{value & 0xFFFF_FFFF:#x}u", _WORD)
    raise UnrecordableError(f"a mask of type {type(value).__name__}")


class Mask:
    """A mask of threads, unknown while the operation is recorded.

    Parameters:
        node: The recorded step.
        holds: Whether ``if`` may treat the mask as not empty, since all writes are under it.
        fact: Whether the mask is a condition of the whole warp: it has all threads or none.
    """

    __slots__ = ("_fact", "_holds", "node")

    def __init__(self, node: RecordedNode, holds: bool = False, fact: bool = False) -> None:
        self.node = node
        self._holds = holds
        self._fact = fact

    def _joined(self, operator: str, other: Any) -> "Mask":
        if operator == "&" and isinstance(other, int) and other == (1 << WARP_THREADS) - 1:
            return self
        fact = self._fact and isinstance(other, Mask) and other._fact
        holds = self._holds and operator == "&" and isinstance(other, int)
        return Mask(
            RecordedNode("mask", f"({{0}} {operator} {{1}})", _WORD, (self.node, as_mask(other))),
            holds,
            fact,
        )

    def __and__(self, other: Any) -> "Mask":
        return self._joined("&", other)

    def __or__(self, other: Any) -> "Mask":
        return self._joined("|", other)

    def __xor__(self, other: Any) -> "Mask":
        return self._joined("^", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> "Mask":
        return Mask(RecordedNode("mask", "(~{0})", _WORD, (self.node,)))

    def __eq__(self, other: object) -> Any:
        return self._compared("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("!=", other)

    def _compared(self, operator: str, other: object) -> "Mask":
        node = RecordedNode(
            "mask",
            f"({{0}} {operator} {{1}} ? ALL_THREADS : 0u)",
            _WORD,
            (self.node, as_mask(other)),
        )
        return Mask(node, fact=True)

    def __mul__(self, everybody: int) -> "Mask":
        """Multiplies a condition of the warp by the mask of all threads; it already is such a mask."""
        if everybody != (1 << WARP_THREADS) - 1 or not self._fact:
            raise UnrecordableError("a product of masks")
        return self

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        if self._holds:
            return True
        raise UnrecordableError("a mask that is not known yet")

    def as_bools(self) -> Vector:
        """Returns, for each thread, whether the mask has it."""
        return Vector(RecordedNode("vector", "(bit_of({0}, i) != 0)", _BOOL, (self.node,)))

    def as_bits(self) -> Vector:
        """Returns 1 for each thread in the mask, else 0."""
        return Vector(RecordedNode("vector", "bit_of({0}, i)", _WORD, (self.node,)))

    def as_words(self) -> Vector:
        """Returns the mask itself for every thread."""
        return Vector(RecordedNode("vector", "{0}", _WORD, (self.node,)))


class RecordedScalar:
    """A number from the instruction word or a constant bank that differs between instructions of
    one shape.

    Only its 32-bit words are accessible, as rows named ``name``.
    """

    __slots__ = ("_name", "_shift")

    def __init__(self, name: str, shift: int = 0) -> None:
        self._name, self._shift = name, shift

    def __rshift__(self, places: int) -> "RecordedScalar":
        return RecordedScalar(self._name, self._shift + places)

    def as_words(self) -> Vector:
        """Returns the 32 bits from the shifted position on, for every thread."""
        if self._shift % 32:
            raise UnrecordableError("a part of a number")
        return Vector(RecordedNode("row", f"{self._name}.{self._shift // 32}", _WORD))
