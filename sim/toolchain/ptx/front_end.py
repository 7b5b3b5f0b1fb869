"""Translates PTX text to a :class:`~sim.toolchain.ptx.module.PtxModule`.

Names must be declared before they are used, except labels. These choices are ours, where the
description of PTX leaves them open:

- addresses have 64 bits, with or without .address_size;
- ``.function`` is read as ``.func``;
- a guard before braces becomes a branch around the block;
- a function whose end can be reached returns there;
- a function that is used needs a body, here or in the runtime (:mod:`sim.toolchain.runtime`);
- an entry that uses textures, or calls a function that does, is refused; the other entries can run;
- an extern variable that the file does not define is allocated and filled with zeros.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

from lark import Token

from sim.toolchain.cubin.nvinfo import LARGEST_WORD
from sim.toolchain.grammar import Place, SourceError, line_and_column, read_text, whole_number
from sim.toolchain.module import LaunchBounds, ProgramError
from sim.toolchain.runtime import FUNCTIONS, OUTPUT, runtime_text

from . import syntax
from .control import branch_table, call_table
from .copies import in_memory, memory_of, with_module_registers
from .declarations import declare, linkage, parameters, signature
from .forms import BANKS_UNTIL, Dialect
from .instructions import read_guard, read_instruction, with_flush_of_target
from .module import (
    FunctionRef,
    Linkage,
    PtxFunction,
    PtxGuard,
    PtxInstruction,
    PtxLabel,
    PtxModule,
    PtxRegister,
    PtxVariable,
    Signature,
    parameter_offsets,
)
from .names import Declared, Namer, Prototype, Scope, TextureError
from .parser import parse

__all__ = ["parse_ptx", "read_ptx"]

_MACHINES = (10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50)
"""Machines whose PTX runs on this machine."""
_LATER = frozenset(
    {
        "52",
        "53",
        "60",
        "61",
        "62",
        "70",
        "72",
        "75",
        "80",
        "86",
        "87",
        "88",
        "89",
        "90",
        "90a",
        *(
            f"{number}{kind}"
            for number in (100, 101, 103, 110, 120, 121)
            for kind in ("", "a", "f")
        ),
    }
)
"""Later machines."""
_TEXTURE_MODES = ("texmode_unified", "texmode_independent")
_SINGLE, _DEBUG = "map_f64_to_f32", "debug"
_FIRST_DOUBLES = 13
"""The first machine with double precision."""
_LAST_MINOR = {1: 5, 2: 3, 3: 2, 4: 3, 5: 1, 6: 5, 7: 8}
"""The last minor version of PTX for each major version. Larger major versions are accepted."""
_BODY_PARAMETERS = (1, 4)
"""The first version in which an entry has a parameter list; before, its body declares the
parameters.
"""
_CALL_PARAMETERS = (2, 0)
"""The first version in which calls pass variables in param space that bodies declare."""
_MODULE_REGISTERS = (3, 0)
"""The first version in which a module has neither registers nor variables in local space."""
_LARGEST_BLOCK = 4352
"""The largest size of an entry's parameters in bytes, as in NVIDIA's assembler."""
_LEAVING = ("bra", "brx", "exit", "ret")
"""Instructions after which, without a guard, control does not continue."""


def read_ptx(path: str | Path) -> PtxModule:
    """Returns the program in a PTX file.

    Raises:
        ProgramError: The file cannot be read, or has an error.
    """
    return parse_ptx(read_text(path), str(path))


def parse_ptx(text: str, name: str) -> PtxModule:
    """Returns the program of a PTX text. ``name`` appears in messages.

    Raises:
        ProgramError: The text has an error; the message gives the place.
    """
    try:
        return _Module(name).read(parse(text))
    except SourceError as error:
        raise ProgramError(f"{name}:{error.line}:{error.column}: {error}") from error
    except RecursionError:
        raise ProgramError(f"{name}: braces, parentheses or signs are nested too deeply") from None


@cache
def _runtime() -> PtxModule:
    return parse_ptx(runtime_text(), "the runtime")


class _Module:
    """The state of a module while its text is read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.names = Namer()
        self.scope = Scope(self.names)
        self.version: tuple[int, int] | None = None
        self.target: str | None = None
        self.functions: dict[str, PtxFunction] = {}
        self.declared: dict[str, Declared] = {}
        self.variables: list[PtxVariable] = []
        self.scopes: dict[str, Scope] = {}
        self.aliases: dict[str, syntax.AliasNode] = {}
        self.textures: dict[str, str] = {}
        self.defined: dict[str, syntax.VariableNode] = {}
        self.early: set[str] = set()

    def read(self, items: list[syntax.ItemNode]) -> PtxModule:
        for item in items:
            if isinstance(item, syntax.VariableNode) and item.linkage != ".extern":
                self.defined.update(
                    dict.fromkeys((str(one.name) for one in item.declarators), item)
                )
            elif isinstance(item, syntax.AliasNode):
                self.aliases.setdefault(str(item.name), item)
        for item in items:
            match item:
                case syntax.VersionNode():
                    self._version(item)
                case syntax.TargetNode():
                    self._target(item)
                case syntax.AddressSizeNode():
                    if str(item.bits) != "64":
                        raise SourceError(
                            item.bits,
                            f"addresses of {item.bits} bits: this machine has 64-bit ones",
                        )
                case syntax.FunctionNode():
                    self._needs_header(item.name)
                    self._function(item)
                case syntax.VariableNode():
                    self._needs_header(item.space)
                    self._variable(item)
                case syntax.AliasNode():
                    self._alias(item)
        self._check_aliases()
        for declared in self.declared.values():
            if declared.used is not None and not declared.defined and not self._supply(declared):
                raise SourceError(
                    declared.used,
                    f"{declared.reference.name} is declared and named, but has no body",
                )
        if self.version is None or self.target is None:
            raise ProgramError(f"{self.name}: expected .version and .target first")
        self._keep_module_registers()
        refused = self._refused()
        functions = {
            name: function for name, function in self.functions.items() if name not in refused
        }
        return PtxModule(
            self.name, self.version, self.target, functions, tuple(self.variables), refused
        )

    @property
    def dialect(self) -> Dialect:
        """The version and target of the text; valid after the header."""
        assert self.version is not None and self.target is not None
        return Dialect(self.version, int(self.target.partition("_")[2]))

    # Variables

    def _variable(self, node: syntax.VariableNode) -> None:
        """Declares a module's variables. A variable that is extern and also defined in the file has
        the properties of its definition.
        """
        if node.linkage == ".extern":
            for declarator in node.declarators:
                self._extern(replace(node, declarators=[declarator]), declarator.name)
            return
        left = [
            declarator
            for declarator in node.declarators
            if not self._is_defined(node, declarator.name)
        ]
        self._declare(replace(node, declarators=left))

    def _declare(self, node: syntax.VariableNode) -> None:
        old = self.dialect.version < _MODULE_REGISTERS
        self.variables += declare(
            node, self.scope, self.names, None, old=old, banks=self.dialect.version < BANKS_UNTIL
        )

    def _is_defined(self, node: syntax.VariableNode, name: Token) -> bool:
        """Whether a declaration was processed early, at an extern declaration before it."""
        return name in self.early and self.defined.get(name) is node

    def _extern(self, node: syntax.VariableNode, name: Token) -> None:
        definition = self.defined.get(name)
        if definition is None:
            self._declare(node)
            return
        if definition.linkage is None:
            raise SourceError(name, f"{name} is extern, and not visible where the file defines it")
        if self.scope.find(name) is None:
            own = next(one for one in definition.declarators if one.name == name)
            self._declare(replace(definition, declarators=[own]))
            self.early.add(str(name))
        found = self.scope.find(name)
        declared = declare(node, Scope(Namer()), Namer(), None)
        shapes = [
            (item.space, item.type, item.count)
            for item in (found, *declared)
            if isinstance(item, PtxVariable)
        ]
        if len(set(shapes)) > 1:
            raise SourceError(name, f"{name} is declared otherwise where the file defines it")

    def _supply(self, declared: Declared) -> bool:
        """Adds a function of the runtime and all that it calls. Returns whether the runtime has the
        function.
        """
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
            waiting += [
                item.call.target.name
                for item in function.body or ()
                if isinstance(item, PtxInstruction)
                and item.call is not None
                and isinstance(item.call.target, FunctionRef)
                and item.call.target.name not in self.functions
            ]
        return True

    def _version(self, item: syntax.VersionNode) -> None:
        major, _, minor = item.number.partition(".")
        if self.version is not None or not (major.isdigit() and minor.isdigit()):
            raise SourceError(item.number, "expected one .version, such as 7.8")
        self.version = whole_number(item.number, major, 10), whole_number(item.number, minor, 10)
        if self.version[0] < 1 or self.version[1] > _LAST_MINOR.get(
            self.version[0], self.version[1]
        ):
            raise SourceError(item.number, f"there is no version {item.number} of PTX")

    def _target(self, item: syntax.TargetNode) -> None:
        first, *others = item.names
        machine = self._machine(first)
        if machine is None:
            raise SourceError(
                first,
                f"{first} is no target: the first word of .target is a machine, such as sm_50",
            )
        modes = [name for name in others if name in _TEXTURE_MODES]
        if len(set(modes)) > 1:
            raise SourceError(modes[1], f"{modes[0]} and {modes[1]} exclude each other")
        for name in others:
            if name == _SINGLE and machine >= _FIRST_DOUBLES:
                raise SourceError(
                    name,
                    f"{name} is for machines below sm_{_FIRST_DOUBLES}, which have no double "
                    "precision",
                )
            if name not in (*_TEXTURE_MODES, _SINGLE, _DEBUG) and self._machine(name) is None:
                raise SourceError(name, f"there is no target {name}")
        self.target = f"sm_{machine}"

    @staticmethod
    def _machine(name: Token) -> int | None:
        """Returns the number of a machine, or None if the name is no target."""
        number = name.removeprefix("sm_").removeprefix("compute_")
        if name not in (f"sm_{number}", f"compute_{number}"):
            return None
        if number in _LATER:
            raise SourceError(
                name, f"target {name}: this machine is sm_50, which runs sm_10 to sm_50"
            )
        return int(number) if number in map(str, _MACHINES) else None

    def _needs_header(self, place: Place) -> None:
        if self.version is None or self.target is None:
            raise SourceError(place, "expected .version and .target first")

    # Functions

    def _function(self, node: syntax.FunctionNode) -> None:
        entry = node.kind == ".entry"
        if entry and node.results is not None:
            raise SourceError(node.name, f"{node.name} is an entry: it has no results")
        namer = Namer()
        scope = Scope(namer, self.scope)
        try:
            results, given = (
                parameters(nodes, scope, entry) for nodes in (node.results, node.parameters)
            )
        except TextureError as error:
            self._refuse_function(node, error)
            return
        found = signature(results, given)
        _check_block(node, found.parameters, entry)
        declared = self._declared(node, found, entry)
        for bound in node.bounds if node.body is None else ():
            raise SourceError(bound.kind, f"{bound.kind} belongs to the entry's definition")
        if node.body is None:
            self.functions.setdefault(
                node.name,
                PtxFunction(
                    str(node.name),
                    entry,
                    declared.linkage,
                    found.results,
                    found.parameters,
                    (),
                    (),
                    None,
                    *line_and_column(node.name),
                ),
            )
            return
        if declared.defined:
            raise SourceError(node.name, f"{node.name} has two bodies")
        declared.defined = True
        for item, entity in (*results, *given):
            if item.name != "_":
                scope.declare(item.name, entity)
        body = _Body(self, node, found)
        body.read(node.body, scope)
        _check_block(node, tuple(body.parameters), entry)
        if body.refused is not None:
            self._refuse_function(node, body.refused)
        items, variables = body.items_in_memory(scope)
        self.scopes[str(node.name)] = scope
        self.functions[str(node.name)] = PtxFunction(
            str(node.name),
            entry,
            declared.linkage,
            found.results,
            tuple(body.parameters),
            tuple(scope.registers),
            variables,
            items,
            *line_and_column(node.name),
            _bounds(node, entry),
        )

    def _refuse_function(self, node: syntax.FunctionNode, error: TextureError) -> None:
        kind = "kernel" if node.kind == ".entry" else "function"
        self.textures[str(node.name)] = (
            f"{self.name}:{error.line}:{error.column}: {error} in {kind} {node.name}: "
            "there are no textures and surfaces"
        )

    def _refused(self) -> dict[str, str]:
        """Returns the entries that use textures or call functions that do, with a message for
        each.
        """
        found = {}
        for name in [*self.declared, *self.textures]:
            declared = self.declared.get(name)
            if declared is not None and not declared.entry:
                continue
            reached, waiting = {name}, [name]
            while waiting:
                function = self.functions.get(waiting.pop())
                new = (_callees(function) if function is not None else set()) - reached
                reached |= new
                waiting += sorted(new)
            cause = next(
                (other for other in (name, *sorted(reached)) if other in self.textures), None
            )
            if cause is not None and (declared is None or declared.entry):
                by = "" if cause == name else f"; kernel {name} calls {cause}"
                found[name] = self.textures[cause] + by
        return found

    def _declared(self, node: syntax.FunctionNode, found: Signature, entry: bool) -> Declared:
        """Returns the function with a name, declared if it is new."""
        name = str(node.name)
        known = self.declared.get(name)
        if known is None:
            known = Declared(
                node.name, entry, linkage(node.linkage), found, FunctionRef(self._function_of(name))
            )
            self.scope.declare(node.name, known)
            self.names.unique(name)
            self.declared[name] = known
        elif known.entry != entry or not _same(known.signature, found):
            raise SourceError(node.name, f"{name} was declared otherwise in line {known.name.line}")
        elif Linkage.EXTERN in (known.linkage, linkage(node.linkage)) and (
            known.defined or node.body is not None
        ):
            raise SourceError(
                node.name,
                f"{name} is extern and has a body in this file, in line {known.name.line} and here",
            )
        if node.linkage is not None and known.linkage in (Linkage.INTERNAL, Linkage.EXTERN):
            known.linkage = linkage(node.linkage)
        return known

    # Aliases

    def _alias(self, node: syntax.AliasNode) -> None:
        """Reads ``.alias``: a function without a body becomes another name of a function."""
        alias, function = (self.declared.get(name) for name in (node.name, node.function))
        for name, found in ((node.name, alias), (node.function, function)):
            if found is None or found.entry:
                raise SourceError(name, f"{name} is no function that was declared before")
        assert alias is not None and function is not None
        if alias.defined or alias is function:
            raise SourceError(node.name, f"{node.name} has a body: an alias has none")
        if self.aliases[node.name] is not node:
            raise SourceError(node.name, f"{node.name} is an alias already")
        if not _same(alias.signature, function.signature):
            raise SourceError(
                node.name, f"{node.name} takes and gives something else than {node.function}"
            )

    def _function_of(self, name: str) -> str:
        """Returns the function that a name denotes, with aliases resolved."""
        seen = [name]
        while seen[-1] in self.aliases:
            node = self.aliases[seen[-1]]
            if node.function in seen:
                raise SourceError(node.name, f"{node.name} is an alias of itself")
            seen.append(str(node.function))
        return seen[-1]

    def _check_aliases(self) -> None:
        """Redirects uses of aliases to their functions, which must have bodies."""
        for name, node in self.aliases.items():
            function = self.declared[self._function_of(name)]
            if not function.defined:
                raise SourceError(node.function, f"{function.name} has an alias, but no body")
            self.declared[name].used = None
            del self.functions[name]

    def _keep_module_registers(self) -> None:
        """Adds memory for the module registers that several functions share."""
        shared = {
            register
            for name, scope in self.scopes.items()
            for register in scope.copies
            if not self.functions[name].entry
        }
        memory = {
            register: memory_of(register, self.names)
            for register in self.scope.registers
            if register in shared
        }
        if not memory:
            return
        self.variables += memory.values()
        for name, scope in self.scopes.items():
            function = self.functions[name]
            assert function.body is not None
            body = with_module_registers(function.body, memory, function.entry, scope)
            self.functions[name] = replace(
                function, body=tuple(body), registers=tuple(scope.registers)
            )


def _callees(function: PtxFunction) -> set[str]:
    """Returns the functions that a function may call according to its text, and those whose address
    it takes.
    """
    found: set[str] = set()
    for item in function.body or ():
        if isinstance(item, PtxInstruction):
            found |= {operand.name for operand in item.operands if isinstance(operand, FunctionRef)}
            found |= set(item.call.candidates or ()) if item.call is not None else set()
    return found


def _same(first: Signature, second: Signature) -> bool:
    def shape(items: tuple[PtxRegister | PtxVariable, ...]) -> list[object]:
        return [
            (item.type, item.count, item.alignment) if isinstance(item, PtxVariable) else item.type
            for item in items
        ]

    return shape(first.results) == shape(second.results) and shape(first.parameters) == shape(
        second.parameters
    )


def _check_block(
    node: syntax.FunctionNode, given: tuple[PtxRegister | PtxVariable, ...], entry: bool
) -> None:
    """Checks that an entry's parameters fit their block of memory."""
    if entry and (size := parameter_offsets(given)[1]) > _LARGEST_BLOCK:
        raise SourceError(
            node.name, f"{node.name} has {size} bytes of parameters: {_LARGEST_BLOCK} at most"
        )


def _bounds(node: syntax.FunctionNode, entry: bool) -> LaunchBounds:
    """Returns an entry's launch bounds."""
    found: dict[str, tuple[int, int, int]] = {}
    for bound in node.bounds:
        if not entry:
            raise SourceError(bound.kind, f"{bound.kind} belongs to an entry")
        sizes = (bound.x, bound.y or 1, bound.z or 1)
        for size in (bound.x, bound.y, bound.z):
            if size is not None and not 0 < size <= LARGEST_WORD:
                raise SourceError(size, f"{bound.kind} {size}: expected a number of threads")
        found[str(bound.kind)] = (int(sizes[0]), int(sizes[1]), int(sizes[2]))
        if len(found) > 1:
            raise SourceError(bound.kind, ".maxntid and .reqntid do not go together")
    return LaunchBounds(found.get(".maxntid"), found.get(".reqntid"))


class _Body:
    """The state of a function's body while it is read, as a flat list. ``refused`` is the first use
    of a texture.
    """

    def __init__(self, module: _Module, node: syntax.FunctionNode, found: Signature) -> None:
        self.module = module
        self.dialect = module.dialect
        self.name = node.name
        self.entry = node.kind == ".entry"
        self.parameters = [*found.parameters]
        self.results = [*found.results]
        self.readonly, self.given = (
            {item for item in items if isinstance(item, PtxVariable)}
            for items in (self.parameters, self.results)
        )
        self.variables: list[PtxVariable] = []
        self.items: list[PtxLabel | PtxInstruction] = []
        self.refused: TextureError | None = None

    def _declare(self, node: syntax.VariableNode, scope: Scope) -> None:
        """Declares variables. Before PTX 1.4 those of an entry in param space are its
        parameters.
        """
        version = self.dialect.version
        if node.space == ".param" and self.entry and _BODY_PARAMETERS <= version < _CALL_PARAMETERS:
            raise SourceError(
                node.space,
                f"parameters of an entry stand in its list, from PTX {_BODY_PARAMETERS[0]}."
                f"{_BODY_PARAMETERS[1]} on",
            )
        found = declare(node, scope, self.module.names, str(self.name))
        if node.space == ".param" and self.entry and version < _BODY_PARAMETERS:
            self.parameters += found
            self.readonly.update(found)
        else:
            self.variables += found

    def _instruction(self, node: syntax.InstructionNode, scope: Scope) -> None:
        dialect = self.dialect
        try:
            found = read_instruction(node, scope, self.readonly, self.given, self.entry, dialect)
            self.items += [with_flush_of_target(instruction, dialect) for instruction in found]
        except TextureError as error:
            if self.refused is None:
                cause = f", as {error}," if str(error) else ""
                self.refused = TextureError(node.opcode, node.spelled + cause)

    def items_in_memory(
        self, scope: Scope
    ) -> tuple[tuple[PtxLabel | PtxInstruction, ...], tuple[PtxVariable, ...]]:
        """Returns the whole body and its variables. A body that uses textures is replaced by a
        trap.
        """
        if self.refused is not None:
            place = self.refused
            self.items = [PtxInstruction(opcode="trap", line=place.line, column=place.column)]
        items = self.finished(self.name)
        if self.entry:
            return items, tuple(self.variables)
        found, added = in_memory(items, self.parameters, self.results, scope)
        return tuple(found), (*self.variables, *added)

    def read(self, statements: list[syntax.StatementNode], scope: Scope) -> None:
        """Reads the statements of a block. Its labels are visible from its start."""
        for statement in statements:
            if isinstance(statement, syntax.LabelNode):
                scope.declare(statement.name, PtxLabel(scope.namer.unique(str(statement.name))))
        for statement in statements:
            match statement:
                case syntax.VariableNode():
                    self._declare(statement, scope)
                case syntax.LabelNode(name):
                    label = scope.find(name)
                    assert isinstance(label, PtxLabel)
                    self.items.append(label)
                case syntax.TableNode():
                    table = branch_table if statement.kind == ".branchtargets" else call_table
                    scope.declare(statement.name, table(scope, statement))
                case syntax.PrototypeNode():
                    inner = Scope(Namer(), scope)
                    scope.declare(
                        statement.name,
                        Prototype(
                            signature(
                                parameters(statement.results, inner, False),
                                parameters(statement.parameters, inner, False),
                            )
                        ),
                    )
                case syntax.InstructionNode():
                    self._instruction(statement, scope)
                case syntax.BlockNode():
                    self._block(statement, scope)

    def _block(self, node: syntax.BlockNode, scope: Scope) -> None:
        guard = read_guard(node.guard, scope)
        if guard is None or node.guard is None:
            self.read(node.body, scope.inner())
            return
        behind = PtxLabel(scope.namer.unique(f"behind_line_{node.guard.predicate.line}"))
        around = PtxGuard(guard.register, not guard.negated)
        line, column = line_and_column(node.guard.predicate)
        self.items.append(
            PtxInstruction(opcode="bra", line=line, column=column, guard=around, operands=(behind,))
        )
        self.read(node.body, scope.inner())
        self.items.append(behind)

    def finished(self, name: Token) -> tuple[PtxLabel | PtxInstruction, ...]:
        """Returns the whole body, with a ret appended if its end can be reached."""
        last = self.items[-1] if self.items else None
        if (
            not isinstance(last, PtxInstruction)
            or last.opcode not in _LEAVING
            or last.guard is not None
        ):
            line, column = line_and_column(last if isinstance(last, PtxInstruction) else name)
            self.items.append(PtxInstruction(opcode="ret", line=line, column=column))
        return tuple(self.items)
