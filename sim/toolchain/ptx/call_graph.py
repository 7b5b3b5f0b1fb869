"""The call graph of a module: the functions that a kernel may call, and the shared variables that
they use.
"""

from functools import cached_property

from .module import (
    AddressOf,
    FunctionRef,
    PtxAddress,
    PtxFunction,
    PtxInstruction,
    PtxModule,
    PtxSpace,
    PtxVariable,
    VariableRef,
)

__all__ = ["CallGraph"]


class CallGraph:
    """The functions that each function may call, and the variables that it uses."""

    def __init__(self, module: PtxModule) -> None:
        self.module = module
        self._used: dict[str, set[PtxVariable]] = {}
        self._called: dict[str, set[str]] = {}
        self._by_address: set[str] = set()
        self._taken: set[str] = set()
        for function in module.functions.values():
            self._read(function)

    def _read(self, function: PtxFunction) -> None:
        used = self._used[function.name] = set()
        called = self._called[function.name] = set()
        for instruction in function.body or ():
            if not isinstance(instruction, PtxInstruction):
                continue
            for operand in instruction.operands:
                match operand:
                    case VariableRef(variable) | PtxAddress(PtxVariable() as variable):
                        used.add(variable)
                    case FunctionRef(name):
                        self._taken.add(name)
            if instruction.call is not None and instruction.call.candidates is not None:
                called.update(instruction.call.candidates)
            elif instruction.call is not None:
                self._by_address.add(function.name)

    @cached_property
    def _addressed(self) -> set[str]:
        """The functions whose address is taken, by a mov or an initial value. If there are none,
        addresses come from outside, and all functions count.
        """
        functions = {name for name, function in self.module.functions.items() if not function.entry}
        variables = [
            *self.module.variables,
            *(one for function in self.module.functions.values() for one in function.variables),
        ]
        initial = {
            value.symbol
            for variable in variables
            for value in variable.initial
            if isinstance(value, AddressOf)
        }
        return (self._taken | initial) & functions or functions

    def used_variables(self, function: str) -> set[PtxVariable]:
        """Returns the variables that a function's own instructions name."""
        return self._used[function]

    def functions(self, entry: str) -> list[PtxFunction]:
        """Returns the entry and all functions with a body that it may call, these in the order of
        the text.
        """
        reached, waiting = {entry}, [entry]
        while waiting:
            name = waiting.pop()
            called = self._called[name] | (self._addressed if name in self._by_address else set())
            waiting += called - reached
            reached |= called
        found = [
            function
            for function in self.module.functions.values()
            if function.name in reached and function.name != entry and function.body is not None
        ]
        return [self.module.functions[entry], *found]

    def shared_variables(self, entry: str) -> list[PtxVariable]:
        """Returns the shared variables that a kernel uses, in the order of their offsets: the
        entry's own, those of the module, those of functions, each in the order of declaration.
        Variables of dynamic size are after all others.
        """
        first, *functions = self.functions(entry)
        used = set().union(*(self._used[function.name] for function in (first, *functions)))
        declared = [
            *first.variables,
            *self.module.variables,
            *(variable for function in functions for variable in function.variables),
        ]
        found = [
            variable
            for variable in declared
            if variable.space is PtxSpace.SHARED and variable in used
        ]
        return sorted(found, key=lambda variable: variable.count is None)
