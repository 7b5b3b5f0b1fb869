"""From PTX text to a :class:`~sim.toolchain.ptx.module.PtxModule`.

Everything is declared before it is named, except labels. Ours, where the description of PTX leaves a choice:

- addresses have 64 bits, whether .address_size says so or is missing;
- ``.function`` is read as ``.func``;
- a guard before braces guards all that is in them, by a branch around them;
- a function's body that can be left at its end returns there;
- a function that is named needs a body, here or in the runtime (:mod:`sim.toolchain.runtime`).
"""

from functools import cache
from pathlib import Path

from lark import Token

from sim.toolchain.grammar import Place, SourceError, read_text, whole_number
from sim.toolchain.module import ProgramError
from sim.toolchain.runtime import FUNCTIONS, OUTPUT, runtime_text

from . import syntax
from .control import branch_table, call_table
from .declarations import declare, linkage, signature
from .instructions import read_guard, read_instruction, with_flush_of_target
from .module import (
    Function,
    FunctionRef,
    Guard,
    Instruction,
    Label,
    Linkage,
    PtxModule,
    Register,
    Signature,
    Variable,
    parameter_offsets,
)
from .names import Declared, Namer, Prototype, Scope

__all__ = ["parse_ptx", "read_ptx"]

_TARGETS = ("sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_21", "sm_30", "sm_32", "sm_35", "sm_37", "sm_50")
_LARGEST_BLOCK = 4352
"""Bytes of an entry's parameters, as for NVIDIA's assembler."""
_LEAVING = ("bra", "brx", "exit", "ret")
"""Instructions that nothing runs behind, without a guard."""


def read_ptx(path: str | Path) -> PtxModule:
    """The program in a PTX file; ProgramError where there is none."""
    return parse_ptx(read_text(path), str(path))


def parse_ptx(text: str, name: str) -> PtxModule:
    """The program of PTX text. ``name`` stands in messages; ProgramError says what is wrong, and where."""
    try:
        return _Module(name).read(syntax.parse(text))
    except SourceError as error:
        raise ProgramError(f"{name}:{error.line}:{error.column}: {error}") from error
    except RecursionError:
        raise ProgramError(f"{name}: braces, parentheses or signs are nested too deeply") from None


@cache
def _runtime() -> PtxModule:
    return parse_ptx(runtime_text(), "the runtime")


class _Module:
    """A module as far as it is read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.names = Namer()
        self.scope = Scope(self.names)
        self.version: tuple[int, int] | None = None
        self.target: str | None = None
        self.functions: dict[str, Function] = {}
        self.declared: dict[str, Declared] = {}
        self.variables: list[Variable] = []

    def read(self, items: list[syntax.Item]) -> PtxModule:
        for item in items:
            match item:
                case syntax.Version():
                    self._version(item)
                case syntax.Target():
                    self._target(item)
                case syntax.AddressSize():
                    if str(item.bits) != "64":
                        raise SourceError(item.bits, f"addresses of {item.bits} bits: this machine has 64-bit ones")
                case syntax.Function():
                    self._needs_header(item.name)
                    self._function(item)
                case syntax.Variable():
                    self._needs_header(item.space)
                    self.variables += declare(item, self.scope, self.names, None)
        for declared in self.declared.values():
            if declared.used is not None and not declared.defined and not self._supply(declared):
                raise SourceError(declared.used, f"{declared.reference.name} is declared and named, but has no body")
        if self.version is None or self.target is None:
            raise ProgramError(f"{self.name}: expected .version and .target first")
        return PtxModule(self.name, self.version, self.target, self.functions, tuple(self.variables))

    def _supply(self, declared: Declared) -> bool:
        """Takes a function of the runtime and all that it calls, if it is one; tells whether it is."""
        name = declared.reference.name
        if name not in FUNCTIONS:
            return False
        runtime = _runtime()
        if not _same(declared.signature, runtime.functions[name].signature):
            raise SourceError(declared.name, f"{name} takes and gives something else")
        if not any(variable.name == OUTPUT for variable in self.variables):
            self.variables += runtime.variables
        waiting = [name]
        while waiting:
            function = runtime.functions[waiting.pop()]
            self.functions[function.name] = function
            waiting += [item.call.target.name for item in function.body or ()
                        if isinstance(item, Instruction) and item.call is not None
                        and isinstance(item.call.target, FunctionRef) and item.call.target.name not in self.functions]
        return True

    def _version(self, item: syntax.Version) -> None:
        major, _, minor = item.number.partition(".")
        if self.version is not None or not (major.isdigit() and minor.isdigit()):
            raise SourceError(item.number, "expected one .version, such as 7.8")
        self.version = whole_number(item.number, major, 10), whole_number(item.number, minor, 10)

    def _target(self, item: syntax.Target) -> None:
        name = item.names[0]
        if name not in _TARGETS:
            raise SourceError(name, f"target {name}: this machine is sm_50, which runs sm_10 to sm_50")
        self.target = str(name)

    def _needs_header(self, place: Place) -> None:
        if self.version is None or self.target is None:
            raise SourceError(place, "expected .version and .target first")

    # Functions

    def _function(self, node: syntax.Function) -> None:
        entry = node.kind == ".entry"
        if entry and node.results is not None:
            raise SourceError(node.name, f"{node.name} is an entry: it has no results")
        namer = Namer()
        scope = Scope(namer, self.scope)
        found = signature(node.results, node.parameters, scope, entry)
        if entry and (size := parameter_offsets(found.parameters)[1]) > _LARGEST_BLOCK:
            raise SourceError(node.name, f"{node.name} has {size} bytes of parameters: {_LARGEST_BLOCK} at most")
        declared = self._declared(node, found, entry)
        if node.body is None:
            self.functions.setdefault(node.name, Function(
                str(node.name), entry, declared.linkage, found.results, found.parameters, (), (), None,
                node.name.line or 1, node.name.column or 1))
            return
        if declared.defined:
            raise SourceError(node.name, f"{node.name} has two bodies")
        declared.defined = True
        for items, entities in ((node.results, found.results), (node.parameters, found.parameters)):
            for item, entity in zip(items or (), entities, strict=True):
                if item.name != "_":
                    scope.declare(item.name, entity)
        given = frozenset(item for item in found.parameters if isinstance(item, Variable))
        body = _Body(self, str(node.name), given, entry)
        body.read(node.body, scope)
        self.functions[str(node.name)] = Function(
            str(node.name), entry, declared.linkage, found.results, found.parameters, tuple(scope.registers),
            tuple(body.variables), body.finished(node.name), node.name.line or 1, node.name.column or 1)

    def _declared(self, node: syntax.Function, found: Signature, entry: bool) -> Declared:
        """The function of a name, declared by now."""
        name = str(node.name)
        known = self.declared.get(name)
        if known is None:
            known = Declared(node.name, entry, linkage(node.linkage), found, FunctionRef(name))
            self.scope.declare(node.name, known)
            self.names.unique(name)
            self.declared[name] = known
        elif known.entry != entry or not _same(known.signature, found):
            raise SourceError(node.name, f"{name} was declared otherwise in line {known.name.line}")
        if node.linkage is not None and known.linkage in (Linkage.INTERNAL, Linkage.EXTERN):
            known.linkage = linkage(node.linkage)
        return known


def _same(first: Signature, second: Signature) -> bool:
    def shape(items: tuple[Register | Variable, ...]) -> list[object]:
        return [(item.type, item.count, item.alignment) if isinstance(item, Variable) else item.type for item in items]

    return shape(first.results) == shape(second.results) and shape(first.parameters) == shape(second.parameters)


class _Body:
    """A function's body as far as it is read: flat."""

    def __init__(self, module: _Module, function: str, readonly: frozenset[Variable], entry: bool) -> None:
        self.module = module
        self.function = function
        self.readonly = readonly
        self.entry = entry
        self.variables: list[Variable] = []
        self.items: list[Label | Instruction] = []

    def read(self, statements: list[syntax.Statement], scope: Scope) -> None:
        """Reads what is between two braces. Its labels are visible from its start on."""
        for statement in statements:
            if isinstance(statement, syntax.Label):
                scope.declare(statement.name, Label(scope.namer.unique(str(statement.name))))
        for statement in statements:
            match statement:
                case syntax.Variable():
                    self.variables += declare(statement, scope, self.module.names, self.function)
                case syntax.Label(name):
                    label = scope.find(name)
                    assert isinstance(label, Label)
                    self.items.append(label)
                case syntax.Table():
                    table = branch_table if statement.kind == ".branchtargets" else call_table
                    scope.declare(statement.name, table(scope, statement))
                case syntax.Prototype():
                    scope.declare(statement.name, Prototype(signature(
                        statement.results, statement.parameters, Scope(Namer(), scope))))
                case syntax.Instruction():
                    instruction = read_instruction(statement, scope, self.readonly, self.entry)
                    assert self.module.target is not None and self.module.version is not None
                    self.items.append(with_flush_of_target(instruction, self.module.target, self.module.version))
                case syntax.Block():
                    self._block(statement, scope)

    def _block(self, node: syntax.Block, scope: Scope) -> None:
        guard = read_guard(node.guard, scope)
        if guard is None or node.guard is None:
            self.read(node.body, scope.inner())
            return
        behind = Label(scope.namer.unique(f"behind_line_{node.guard.predicate.line}"))
        around = Guard(guard.register, not guard.negated)
        self.items.append(Instruction(opcode="bra", line=node.guard.predicate.line or 1,
                                      column=node.guard.predicate.column or 1, guard=around, operands=(behind,)))
        self.read(node.body, scope.inner())
        self.items.append(behind)

    def finished(self, name: Token) -> tuple[Label | Instruction, ...]:
        """The whole body, with a ret at its end where that can be reached."""
        last = self.items[-1] if self.items else None
        if not isinstance(last, Instruction) or last.opcode not in _LEAVING or last.guard is not None:
            place = last if isinstance(last, Instruction) else name
            self.items.append(Instruction(opcode="ret", line=place.line or 1, column=place.column or 1))
        return tuple(self.items)
