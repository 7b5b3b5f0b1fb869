"""The mutants of a source file: one change each, found by Python's ``ast``."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from sim.checks.formal.fault import Fault

__all__ = ["OPERATORS", "Mutant", "module_of", "mutants_of", "statement_at"]

OPERATORS = {
    "operator": "+ and -, & and |, << and >>, == and !=, < and <=, > and >= in place of each other; ^ becomes |",
    "invert": "~, not, or the sign is left out",
    "negate": "the condition of an If, Elif or Mux is negated",
    "stuck": "it is always, or never, true",
    "swap": "the values of a Mux, or the two sides of -, change places",
    "constant": "a number is one more, or one less; a truth value is the other one",
    "index": "so is an index or the end of a slice",
    "width": "a signal, port or field is a bit less wide; a wider one would do the same",
    "drop": "an assignment, or a statement that is a call, is left out; in host code also a raise",
    "return": "a function returns None",
    "jump": "break and continue in place of each other",
}
"""The kinds of changes, with descriptions. The last two are made only in host code."""
_HOST = "sim/"
"""The folder of host code; all other files are hardware."""
_BINARY = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
_COMPARED = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_HOST_BINARY = {
    **_BINARY,
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
}
_HOST_COMPARED = {
    **_COMPARED,
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_CONDITIONED = ("If", "Elif", "Mux")
_WIDE = ("Signal", "unsigned", "signed", "In", "Out")
_LEFT_ALONE = ("Assert", "Assume", "Cover", "cast", "TypeVar")
"""Calls that are not mutated: a weaker assertion is the same hardware."""
_NAMES_ONLY = ("name", "attrs", "domain", "src_loc_at")
"""Arguments without effect on the hardware."""
_HOST_LEFT_ALONE = (*_LEFT_ALONE, "tqdm", "NewType", "ParamSpec")
_HOST_NAMES_ONLY = (*_NAMES_ONLY, "timeout", "stacklevel", "help", "metavar", "desc", "unit")
"""Arguments without effect on host code."""


@dataclass(frozen=True)
class Mutant:
    """One change in a source file.

    Attributes:
        file: Path of the file, relative to the project's folder.
        number: Its index among the mutants of the file.
        operator: A key of OPERATORS.
        line: Its line, counted from 1.
        scope: The enclosing class and function; empty at module level.
        change: The lines around it in one, with ``[-old-]{+new+}``, followed by a number if the
            scope has that more than once.
        fault: The change in the form that theorems use.
    """

    file: str
    number: int
    operator: str
    line: int
    scope: str
    change: str
    fault: Fault

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the mutant, which does not depend on the lines before it."""
        return self.file, self.scope, self.change

    def rank(self, seed: int) -> bytes:
        """Returns the position in the order of a seed. It depends only on the key, so that added or
        removed mutants do not change it.
        """
        return sha256("\0".join((str(seed), *self.key)).encode()).digest()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.scope and self.scope + ': '}{self.change}"


@dataclass(frozen=True)
class _Edit:
    """A replacement of the bytes ``start`` to ``end``."""

    operator: str
    start: int
    end: int
    new: str
    scope: str


def module_of(file: str) -> str:
    """Returns the Python module name of a file of the project."""
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Returns all mutants of a file, by position."""
    content, found, seen = source.encode(), [], {}
    walk = (_HostEdits if file.startswith(_HOST) else _Edits)(content)
    edits = {(edit.start, edit.end, edit.new): edit for edit in walk.all()}
    for edit in sorted(edits.values(), key=lambda edit: (edit.start, edit.end, edit.new)):
        if content[edit.start : edit.end] == edit.new.encode():
            continue
        begin, end = content.rfind(b"\n", 0, edit.start) + 1, _end_of_line(content, edit.end)
        around = [content[begin : edit.start], content[edit.end : end]]
        old = content[edit.start : edit.end].decode()
        marked = f"{around[0].decode()}[-{old}-]{{+{edit.new}+}}{around[1].decode()}"
        change = " ".join(marked.split())
        times = seen[edit.scope, change] = seen.get((edit.scope, change), 0) + 1
        found.append(
            Mutant(
                file,
                len(found),
                edit.operator,
                content.count(b"\n", 0, edit.start) + 1,
                edit.scope,
                change if times == 1 else f"{change} #{times}",
                _fault(file, content, edit),
            )
        )
    return found


def _end_of_line(content: bytes, place: int) -> int:
    end = content.find(b"\n", place)
    return len(content) if end < 0 else end


def _fault(file: str, content: bytes, edit: _Edit) -> Fault:
    """Returns the edit with enough context lines to make its text unique."""
    begin, end = content.rfind(b"\n", 0, edit.start) + 1, _end_of_line(content, edit.end)
    while content.count(content[begin:end]) > 1:
        begin, end = (
            content.rfind(b"\n", 0, max(begin - 1, 0)) + 1,
            _end_of_line(content, min(end + 1, len(content))),
        )
    new = content[begin : edit.start] + edit.new.encode() + content[edit.end : end]
    return Fault(module_of(file), content[begin:end].decode(), new.decode())


def _called(node: ast.AST) -> str:
    """Returns the last name of the called expression."""
    function = node.func if isinstance(node, ast.Call) else None
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


class _Edits:
    """Visits a file of the hardware."""

    binary, compared = _BINARY, _COMPARED

    def __init__(self, content: bytes) -> None:
        self._content = content
        lines = content.split(b"\n")
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._scope: list[str] = []

    def all(self) -> Iterator[_Edit]:
        """Yields all edits, unordered, some more than once."""
        yield from self._children(ast.parse(self._content))

    # Positions.

    def _start(self, node: Any) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: Any) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: Any) -> str:
        return self._content[self._start(node) : self._end(node)].decode()

    def _put(self, operator: str, node: Any, new: str) -> _Edit:
        return _Edit(operator, self._start(node), self._end(node), new, ".".join(self._scope))

    def _symbol(self, left: Any, right: Any, old: str, new: str) -> _Edit:
        """Returns an edit of the symbol between two operands."""
        start, between = (
            self._end(left),
            self._content[self._end(left) : self._start(right)].decode(),
        )
        found = re.search(
            re.escape(old), re.sub(r"#.*", lambda comment: " " * len(comment[0]), between)
        )
        assert found is not None, between
        return _Edit(
            "operator", start + found.start(), start + found.end(), new, ".".join(self._scope)
        )

    # The visited nodes.

    def _children(self, node: ast.AST) -> Iterator[_Edit]:
        for child in ast.iter_child_nodes(node):
            yield from self._visit(child)

    def _visit(self, node: ast.AST) -> Iterator[_Edit]:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Assert() | ast.JoinedStr():
                return
            case ast.Call() if _called(node) in _LEFT_ALONE:
                return
            case ast.keyword() if node.arg in _NAMES_ONLY:
                return
            case ast.ClassDef() | ast.FunctionDef():
                self._scope.append(node.name)
                for statement in node.body:
                    yield from self._visit(statement)
                self._scope.pop()
                return
            case ast.Expr():
                if (
                    isinstance(node.value, ast.Call)
                    and self._scope
                    and not self._begins(node.value)
                ):
                    yield self._put("drop", node, "None")
            case ast.AugAssign():
                yield from self._assigned(node)
            case ast.Call():
                yield from self._call(node)
                return
            case ast.BinOp():
                yield from self._binary(node)
            case ast.BoolOp():
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield self._symbol(left, right, *self.binary[type(node.op)])
            case ast.Compare():
                yield from self._comparison(node)
            case ast.UnaryOp():
                yield self._without_sign(node)
            case ast.If() | ast.IfExp():
                yield self._put("negate", node.test, f"not ({self._text(node.test)})")
            case ast.Subscript():
                yield from self._subscript(node)
                return
            case ast.Dict() if node.keys and all(
                isinstance(key, ast.Constant) for key in node.keys
            ):
                yield from self._layout(node)
                return
            case ast.Constant():
                yield from self._number("constant", node)
        yield from self._children(node)

    @staticmethod
    def _begins(call: ast.Call) -> bool:
        """Whether a call is the base class's constructor, which is required."""
        return _called(call) == "__init__"

    def _assigned(self, node: ast.AugAssign) -> Iterator[_Edit]:
        """Yields the removals of assignments of the hardware, one at a time."""
        target = node.target
        while isinstance(target, ast.Subscript):
            target = target.value
        if (
            isinstance(node.op, ast.Add)
            and isinstance(target, ast.Attribute)
            and self._text(target).startswith("m.d")
        ):
            if not isinstance(node.value, (ast.List, ast.Tuple)):
                if _called(node.value) not in _LEFT_ALONE:
                    yield self._put("drop", node.value, "[]")
            else:
                for part in node.value.elts:
                    if _called(part) not in _LEFT_ALONE:
                        yield self._put("drop", part, "*()")
        elif type(node.op) in self.binary:
            old, new = self.binary[type(node.op)]
            yield self._symbol(node.target, node.value, old, new)

    def _call(self, node: ast.Call) -> Iterator[_Edit]:
        called, operands = _called(node), node.args
        if called in _CONDITIONED and operands:
            condition = operands[0]
            for stuck in ("0", "1"):
                yield self._put("stuck", condition, stuck)
            # For others an equivalent change exists.
            if not (
                isinstance(condition, ast.UnaryOp)
                or (
                    isinstance(condition, ast.Compare)
                    and isinstance(condition.ops[0], (ast.Eq, ast.NotEq))
                )
            ):
                yield self._put("negate", condition, f"({self._text(condition)}) == 0")
        if called == "Mux" and len(operands) == 3:
            _, first, second = operands
            between = self._content[self._end(first) : self._start(second)].decode()
            yield _Edit(
                "swap",
                self._start(first),
                self._end(second),
                f"{self._text(second)}{between}{self._text(first)}",
                ".".join(self._scope),
            )
        if called in _WIDE and operands:
            yield from self._number("width", operands[0])
            operands = operands[1:] if isinstance(operands[0], ast.Constant) else operands
        for part in (node.func, *operands, *node.keywords):
            yield from self._visit(part)

    def _binary(self, node: ast.BinOp) -> Iterator[_Edit]:
        if type(node.op) in self.binary:
            yield self._symbol(node.left, node.right, *self.binary[type(node.op)])
        if isinstance(node.op, ast.Sub):
            yield self._put("swap", node, f"({self._text(node.right)}) - ({self._text(node.left)})")

    def _comparison(self, node: ast.Compare) -> Iterator[_Edit]:
        for left, right, compared in zip(
            [node.left, *node.comparators], node.comparators, node.ops, strict=False
        ):
            if type(compared) in self.compared:
                yield self._symbol(left, right, *self.compared[type(compared)])

    def _without_sign(self, node: ast.UnaryOp) -> _Edit:
        sign = "not" if isinstance(node.op, ast.Not) else "~"  # "-" and "+" are as long as "~"
        start = self._start(node)
        return _Edit("invert", start, start + len(sign), "", ".".join(self._scope))

    def _layout(self, node: ast.Dict) -> Iterator[_Edit]:
        """A dictionary with constant keys, as layouts and signatures are written: its values are widths."""
        for value in node.values:
            yield from self._number("width", value)
            if not isinstance(value, ast.Constant):
                yield from self._visit(value)

    def _subscript(self, node: ast.Subscript) -> Iterator[_Edit]:
        yield from self._visit(node.value)
        parts = (
            [node.slice.lower, node.slice.upper]
            if isinstance(node.slice, ast.Slice)
            else [node.slice]
        )
        for part in parts:
            if part is not None:
                yield from self._number("index", part)
                if not isinstance(part, ast.Constant):
                    yield from self._visit(part)

    def _number(self, operator: str, node: ast.expr) -> Iterator[_Edit]:
        """Yields changes of a number, or of a named number used as a width or an index, to adjacent
        ones.
        """
        match node:
            case ast.Constant(value=bool(value)):
                yield self._put(operator, node, str(not value))
            case ast.Constant(value=int(value)):
                if operator != "width":
                    yield self._put(operator, node, str(value + 1))
                if value:
                    yield self._put(operator, node, str(value - 1))
            case ast.Name(id=name) | ast.Attribute(attr=name) if (
                operator != "constant" and _is_number(name)
            ):
                for change in ("- 1",) if operator == "width" else ("+ 1", "- 1"):
                    yield self._put(operator, node, f"{self._text(node)} {change}")


class _HostEdits(_Edits):
    """Visits a file of host code. Texts, annotations, decorators and type checks are not mutated."""

    binary, compared = _HOST_BINARY, _HOST_COMPARED

    def _visit(self, node: ast.AST) -> Iterator[_Edit]:
        match node:
            case ast.If() if self._text(node.test) in ("TYPE_CHECKING", '__name__ == "__main__"'):
                return
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                return
            case ast.Assign(value=ast.BinOp(op=ast.BitOr())) if not self._scope:  # A union of types
                return
            case ast.Call() if _called(node) in _HOST_LEFT_ALONE:
                return
            case ast.keyword() if node.arg in _HOST_NAMES_ONLY:
                return
            case ast.AnnAssign():
                if node.value is not None:
                    yield from self._visit(node.value)
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._scope.append(node.name)
                for part in (*node.args.defaults, *node.args.kw_defaults, *node.body):
                    if part is not None:
                        yield from self._visit(part)
                self._scope.pop()
                return
            case ast.Raise() if self._scope:
                yield self._put("drop", node, "pass")
                return
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() if (
                self._scope
            ):
                yield self._put("drop", node, "pass")
            case ast.Return(value=ast.expr()) if not _is_none(node.value):
                yield self._put("return", node.value, "None")
            case ast.Break():
                yield self._put("jump", node, "continue")
            case ast.Continue():
                yield self._put("jump", node, "break")
            case ast.While() if not isinstance(node.test, ast.Constant):
                yield self._put("negate", node.test, f"not ({self._text(node.test)})")
            case ast.match_case(guard=ast.expr()):
                yield self._put("negate", node.guard, f"not ({self._text(node.guard)})")
            case ast.comprehension():
                for condition in node.ifs:
                    yield self._put("stuck", condition, "True")
            case ast.Dict():
                yield from self._children(node)
                return
            case ast.BinOp() if any(_is_text(side) for side in (node.left, node.right)):
                yield from self._children(node)
                return
            case ast.Call(func=ast.Name(id=name)) if name in _OPPOSITES:
                yield self._put("swap", node.func, _OPPOSITES[name])
            case ast.Constant(value=float(value)):
                yield self._put("constant", node, repr(2 * value if value else 1.0))
        yield from super()._visit(node)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def statement_at(tree: ast.Module, line: int) -> tuple[range, range]:
    """Returns the lines of the innermost statement around a line, without those of nested
    statements; and the lines of the enclosing function, or of the file.
    """
    inner, around = range(line, line + 1), None
    nodes = [tree.body]
    while nodes:
        for node in nodes.pop():
            decorators = getattr(node, "decorator_list", [])
            first, last = (
                min([node.lineno, *(part.lineno for part in decorators)]),
                node.end_lineno or node.lineno,
            )
            if not first <= line <= last:
                continue
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                around = range(first, last + 1)
            body = [
                part for part in ast.walk(node) if isinstance(part, ast.stmt) and part is not node
            ]
            begins = min((part.lineno for part in body), default=last + 1)
            inner = range(first, begins) if line < begins else range(line, line + 1)
            nodes.append(
                [part for part in body if part.lineno <= line <= (part.end_lineno or part.lineno)][
                    :1
                ]
            )
            break
    return inner, around or range(0)


def _is_number(name: str) -> bool:
    """Whether a name is that of a constant, or of a number of bits."""
    return name.isupper() or name.lower().endswith("bits")
