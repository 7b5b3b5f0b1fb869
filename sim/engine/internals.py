"""The private parts of Amaranth on which the engines build; they are why its version is pinned.

Their types are unknown to type checkers.
"""

from importlib import import_module
from typing import Any

__all__ = [
    "AnyValue",
    "AssignmentList",
    "AsyncPrint",
    "AsyncProcess",
    "AsyncProperty",
    "AsyncReadPort",
    "BaseProcess",
    "BaseSignalState",
    "CombinationalCycle",
    "Concat",
    "DelayTrigger",
    "Design",
    "FlipFlop",
    "Fragment",
    "IOBufferInstance",
    "Initial",
    "Instance",
    "Matches",
    "MemoryCell",
    "MemoryInstance",
    "Netlist",
    "Operation",
    "Operator",
    "PartSelect",
    "PortDirection",
    "PriorityMatch",
    "PyClockProcess",
    "PyEngineState",
    "PyMemoryState",
    "PySignalState",
    "PySimEngine",
    "SampleTrigger",
    "SignalDict",
    "SignalSet",
    "Slice",
    "SyncPrint",
    "SyncProperty",
    "SyncReadPort",
    "SyncWritePort",
    "Top",
    "emit_netlist",
    "pin_blame",
    "run_wakers",
    "value_to_string",
]

_ast: Any = import_module("amaranth.hdl._ast")
_ir: Any = import_module("amaranth.hdl._ir")
_nir: Any = import_module("amaranth.hdl._nir")
_mem: Any = import_module("amaranth.hdl._mem")
_async: Any = import_module("amaranth.sim._async")
_base: Any = import_module("amaranth.sim._base")
_pysim: Any = import_module("amaranth.sim.pysim")

SignalDict, SignalSet, Operator = _ast.SignalDict, _ast.SignalSet, _ast.Operator
Concat, Slice = _ast.Concat, _ast.Slice
Design, Fragment, PortDirection, emit_netlist = (
    _ir.Design,
    _ir.Fragment,
    _ir.PortDirection,
    _ir._emit_netlist,
)
Instance, IOBufferInstance, MemoryInstance = _ir.Instance, _ir.IOBufferInstance, _mem.MemoryInstance
CombinationalCycle = _nir.CombinationalCycle
AssignmentList, FlipFlop, Netlist = _nir.AssignmentList, _nir.FlipFlop, _nir.Netlist
Operation, PartSelect, PriorityMatch, Matches, Top, Initial, AnyValue = (
    _nir.Operator,
    _nir.Part,
    _nir.PriorityMatch,
    _nir.Matches,
    _nir.Top,
    _nir.Initial,
    _nir.AnyValue,
)
MemoryCell, SyncWritePort, AsyncReadPort, SyncReadPort = (
    _nir.Memory,
    _nir.SyncWritePort,
    _nir.AsyncReadPort,
    _nir.SyncReadPort,
)
SyncPrint, AsyncPrint, SyncProperty, AsyncProperty = (
    _nir.SyncPrint,
    _nir.AsyncPrint,
    _nir.SyncProperty,
    _nir.AsyncProperty,
)
AsyncProcess, DelayTrigger, SampleTrigger = (
    _async.AsyncProcess,
    _async.DelayTrigger,
    _async.SampleTrigger,
)
BaseProcess, BaseSignalState = _base.BaseProcess, _base.BaseSignalState
PySimEngine, PyEngineState, PySignalState, PyMemoryState, run_wakers = (
    _pysim.PySimEngine,
    _pysim._PyEngineState,
    _pysim._PySignalState,
    _pysim._PyMemoryState,
    _pysim._run_wakers,
)
PyClockProcess: Any = import_module("amaranth.sim._pyclock").PyClockProcess
pin_blame: Any = import_module("amaranth.sim._pyrtl").pin_blame
value_to_string: Any = import_module("amaranth.sim._pyrtl").value_to_string
