"""The parts of Amaranth that are not public and that the engines build on: the reason why its version is pinned.

Their types are unknown to type checkers.
"""

from importlib import import_module
from typing import Any

__all__ = ["AnyValue", "Assignment", "AssignmentList", "AsyncPrint", "AsyncProcess", "AsyncProperty", "AsyncReadPort",
           "BaseProcess", "BaseSignalState", "BuiltinYosys",
           "CombinationalCycle", "DelayTrigger", "Design", "EmptyModuleChecker", "FlipFlop", "IOBufferInstance", "Initial",
           "Instance", "Matches", "MemoryCell", "MemoryInstance", "ModuleEmitter", "Net", "Netlist", "Operation", "Operator",
           "PartSelect", "PortDirection", "PriorityMatch",
           "PyClockProcess", "PyEngineState", "PyMemoryState", "PySignalState", "PySimEngine", "RtlilText",
           "SampleTrigger", "SignalDict", "SignalSet", "Slice", "SyncPrint", "SyncProperty", "SyncReadPort", "SyncWritePort",
           "Top", "YosysError", "compute_ports", "emit_netlist",
           "pin_blame", "run_wakers"]

_ast: Any = import_module("amaranth.hdl._ast")
_ir: Any = import_module("amaranth.hdl._ir")
_nir: Any = import_module("amaranth.hdl._nir")
_rtlil: Any = import_module("amaranth.back.rtlil")
_mem: Any = import_module("amaranth.hdl._mem")
_async: Any = import_module("amaranth.sim._async")
_base: Any = import_module("amaranth.sim._base")
_pysim: Any = import_module("amaranth.sim.pysim")
_yosys: Any = import_module("amaranth._toolchain.yosys")

SignalDict, SignalSet, Operator, Slice = _ast.SignalDict, _ast.SignalSet, _ast.Operator, _ast.Slice
Design, PortDirection, emit_netlist = _ir.Design, _ir.PortDirection, _ir._emit_netlist
Instance, IOBufferInstance, MemoryInstance = _ir.Instance, _ir.IOBufferInstance, _mem.MemoryInstance
CombinationalCycle = _nir.CombinationalCycle
Assignment, AssignmentList, FlipFlop, Net, Netlist = (
    _nir.Assignment, _nir.AssignmentList, _nir.FlipFlop, _nir.Net, _nir.Netlist)
Operation, PartSelect, PriorityMatch, Matches, Top, Initial, AnyValue = (
    _nir.Operator, _nir.Part, _nir.PriorityMatch, _nir.Matches, _nir.Top, _nir.Initial, _nir.AnyValue)
MemoryCell, SyncWritePort, AsyncReadPort, SyncReadPort = (
    _nir.Memory, _nir.SyncWritePort, _nir.AsyncReadPort, _nir.SyncReadPort)
SyncPrint, AsyncPrint, SyncProperty, AsyncProperty = (
    _nir.SyncPrint, _nir.AsyncPrint, _nir.SyncProperty, _nir.AsyncProperty)
RtlilText, EmptyModuleChecker, ModuleEmitter = _rtlil.Design, _rtlil.EmptyModuleChecker, _rtlil.ModuleEmitter
AsyncProcess, DelayTrigger, SampleTrigger = _async.AsyncProcess, _async.DelayTrigger, _async.SampleTrigger
BaseProcess, BaseSignalState = _base.BaseProcess, _base.BaseSignalState
PySimEngine, PyEngineState, PySignalState, PyMemoryState, run_wakers = (
    _pysim.PySimEngine, _pysim._PyEngineState, _pysim._PySignalState, _pysim._PyMemoryState, _pysim._run_wakers)
PyClockProcess: Any = import_module("amaranth.sim._pyclock").PyClockProcess
pin_blame: Any = import_module("amaranth.sim._pyrtl").pin_blame
value_to_string: Any = import_module("amaranth.sim._pyrtl").value_to_string
BuiltinYosys, YosysError = _yosys._BuiltinYosys, _yosys.YosysError


def compute_ports(netlist: Any, ports: Any) -> None:
    """Works out which nets pass between the modules of a netlist, the last step before it can be written."""
    _ir._compute_net_flows(netlist)
    _ir._compute_ports(netlist)
    _ir._compute_ionet_dirs(netlist)
    _ir._compute_io_ports(netlist, ports)
