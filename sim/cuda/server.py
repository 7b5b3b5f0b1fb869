"""The server: answers the calls of the CUDA libraries in connected programs.

Each connection has a thread; one call uses the device at a time. The socket has a name in Linux's
abstract name space, and device memory is an anonymous file: nothing is left behind, even after a
crash.
"""

import os
import secrets
import select
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sim.cuda.compilers import Compiler, JitOptions, OwnCompiler
from sim.cuda.device import CLOCK_KHZ, Context, Device
from sim.cuda.errors import CudaError
from sim.cuda.images import link_images, module_of
from sim.cuda.names import with_readable_kernels
from sim.cuda.protocol import CALLS, REPLY_HEADER, REQUEST_HEADER, VERSION
from sim.toolchain.module import Module

__all__ = ["Server"]

_INVALID_VALUE, _INVALID_CONTEXT, _NOT_FOUND, _UNKNOWN = 1, 201, 500, 999
_BY_NUMBER = {call.number: name for name, call in CALLS.items()}
_MOST_DATA = 1 << 30
"""The most bytes of data of a request: a larger number is invalid, and ends the connection."""
_CREDENTIALS = struct.Struct("3i")
_FUNCTIONS = {
    "memory_info": "cuMemGetInfo",
    "context_destroy": "cuCtxDestroy",
    "allocate": "cuMemAlloc",
    "free": "cuMemFree",
    "module_load": "cuModuleLoadData",
    "module_unload": "cuModuleUnload",
    "module_function": "cuModuleGetFunction",
    "module_global": "cuModuleGetGlobal",
    "module_functions": "cuModuleEnumerateFunctions",
    "occupancy": "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "launch": "cuLaunchKernel",
    "link": "cuLinkComplete",
    "get_limit": "cuCtxGetLimit",
    "set_limit": "cuCtxSetLimit",
    "set_shared": "cuFuncSetAttribute",
}
"""The CUDA function for each call, for messages. Other calls are never refused, or only query
whether an address is the device's.
"""
_LINK_INPUT = struct.Struct("<QII")
"""Header of an image to link: its size, the most registers, the level of optimisation."""

Answer = tuple[Mapping[str, Any], bytes]


class _EndOfConnectionError(Exception):
    """The program has ended, or violates the protocol."""


def _read(connection: socket.socket, count: int) -> bytes:
    """Reads exactly ``count`` bytes."""
    content = bytearray()
    while len(content) < count:
        part = connection.recv(min(count - len(content), 1 << 20))
        if not part:
            raise _EndOfConnectionError
        content += part
    return bytes(content)


class Server:
    """Serves a device to programs, until it is closed.

    Parameters:
        device: The device.
        compiler: Compiler of PTX; by default the project's own.

    Attributes:
        name: Name of the socket, which SOCKET_VARIABLE passes to programs.
        device: As above.
        compiler: As above.
    """

    def __init__(self, device: Device, compiler: Compiler | None = None) -> None:
        self.device = device
        self.compiler = compiler or OwnCompiler()
        self.name = f"warpstack-{os.getpid()}-{secrets.token_hex(8)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0{self.name}")
        self._listener.listen()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._modules: dict[tuple[bytes, JitOptions], Module] = {}
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends all connections; returns when the device is no longer used."""
        connections = dict(self._connections)
        for one in (self._listener, *connections.values()):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._thread, *connections):
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # It is closed.
                return
            credentials = connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
            if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
                connection.close()
                continue
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._connections[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Answers all calls of one program; resources that it has not freed are freed when it ends."""
        session = _Session(self, connection)
        try:
            while True:
                session.answer()
        except (_EndOfConnectionError, OSError):
            pass
        finally:
            with self.device.lock:
                session.release()
            connection.close()
            self._connections.pop(threading.current_thread(), None)

    @property
    def programs(self) -> int:
        """Returns the number of connections."""
        return len(self._connections)

    def module(self, content: bytes, options: JitOptions) -> Module:
        """Returns the program of an image; loaded programs are cached."""
        key = (content, options)
        if key not in self._modules:
            self._modules[key] = module_of(content, self.compiler, options)
        return self._modules[key]

    def link(self, inputs: Sequence[tuple[bytes, JitOptions]]) -> bytes:
        """Links several images to one."""
        return link_images(inputs, self.compiler)


class _Session:
    """One connection. The method named after a call returns the fields and the data of its reply."""

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self._server = server
        self._device = server.device
        self._connection = connection
        self._contexts: dict[int, Context] = {}
        self._last_context = 0

    def release(self) -> None:
        """Frees all resources that the program owns."""
        for context in self._contexts.values():
            self._device.release(context)

    def answer(self) -> None:
        """Reads one request and sends its reply."""
        header = REQUEST_HEADER.unpack(_read(self._connection, REQUEST_HEADER.size))
        name = _BY_NUMBER.get(header["call"])
        if name is None or header["data_bytes"] > _MOST_DATA:
            raise _EndOfConnectionError
        call = CALLS[name]
        fields = call.request.unpack(_read(self._connection, call.request.size))
        data = _read(self._connection, header["data_bytes"])
        if name == "hello":
            self._hello(fields["version"])
            return
        context = self._contexts.get(header["context"], None)
        result, reply, answer = 0, b"", b""
        with self._device.lock:
            try:
                values, answer = getattr(self, f"_{name}")(context, fields, data)
                reply = call.reply.pack(**values)
            except CudaError as error:
                message = with_readable_kernels(error.message)
                result, answer = error.result, message.encode()
                if not message and name in _FUNCTIONS:
                    message = f"{_FUNCTIONS[name]}: {error}"
                if message:
                    print(f"warpstack: {message}", file=sys.stderr)
            except _EndOfConnectionError:
                raise
            except Exception as error:  # A bug of this server must not end the program
                result = _UNKNOWN
                print(
                    f"warpstack: the CUDA server failed at {name}: {type(error).__name__}: {error}",
                    file=sys.stderr,
                )
            sticky = 0 if context is None else context.error
        self._send(
            REPLY_HEADER.pack(result=result, sticky=sticky, data_bytes=len(answer)) + reply + answer
        )

    def _check_connection(self) -> None:
        """Ends a launch whose program has ended, or whose server is closed."""
        poll = select.poll()
        poll.register(self._connection, select.POLLRDHUP)
        if poll.poll(0):
            raise _EndOfConnectionError

    def _send(self, content: bytes) -> None:
        self._connection.sendall(content)

    def _hello(self, version: int) -> None:
        """Answers a program's first call, with the file of the device's memory."""
        if version != VERSION:
            self._send(REPLY_HEADER.pack(result=_UNKNOWN, sticky=0, data_bytes=0))
            raise _EndOfConnectionError
        device = self._device
        header = REPLY_HEADER.pack(result=0, sticky=0, data_bytes=0)
        socket.send_fds(self._connection, [header], [device.memory.file])
        self._send(
            CALLS["hello"].reply.pack(
                base=device.memory.first, size=device.size, clock_khz=CLOCK_KHZ
            )
        )

    @staticmethod
    def _present(context: Context | None) -> Context:
        if context is None:
            raise CudaError(_INVALID_CONTEXT)
        return context

    def _device_attribute(
        self, _context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        return {"value": self._device.attributes.get(fields["attribute"], 0)}, b""

    def _memory_info(
        self, _context: Context | None, _fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        return {"free": self._device.free_bytes(), "total": self._device.size}, b""

    def _context_create(
        self, _context: Context | None, _fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        self._last_context += 1
        self._contexts[self._last_context] = self._device.make_context()
        return {"context": self._last_context}, b""

    def _context_destroy(
        self, _context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        context = self._contexts.pop(fields["context"], None)
        self._device.release(self._present(context))
        return {}, b""

    def _allocate(self, context: Context | None, fields: Mapping[str, int], _data: bytes) -> Answer:
        return {
            "address": self._device.allocate(self._present(context), fields["size"], fields["kind"])
        }, b""

    def _free(self, context: Context | None, fields: Mapping[str, int], _data: bytes) -> Answer:
        owner = next(
            (one for one in self._contexts.values() if fields["address"] in one.allocations), None
        )
        if owner is None:
            raise CudaError(
                _INVALID_VALUE, f"cuMemFree: no allocation begins at {fields['address']:#x}"
            )
        self._device.free(owner, fields["address"])
        return {}, b""

    def _address_range(
        self, _context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        found = self._device.memory.range_of(fields["address"], fields["size"])
        if found is None:
            raise CudaError(_INVALID_VALUE)
        base, size = found
        for number, context in self._contexts.items():
            if base in context.allocations:
                return {
                    "base": base,
                    "size": size,
                    "kind": context.allocations[base][1],
                    "context": number,
                }, b""
        return {"base": base, "size": size, "kind": 0, "context": 0}, b""

    def _module_load(
        self, context: Context | None, fields: Mapping[str, int], data: bytes
    ) -> Answer:
        module = self._server.module(data, JitOptions(fields["max_registers"], fields["level"]))
        return {"module": self._device.load(self._present(context), module)}, b""

    def _module_unload(
        self, _context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        self._device.unload(self._owner(fields["module"]), fields["module"])
        return {}, b""

    def _owner(self, module: int) -> Context:
        """Returns the context that owns a module."""
        for context in self._contexts.values():
            if module in context.modules:
                return context
        raise CudaError(400)

    def _module_function(
        self, _context: Context | None, fields: Mapping[str, int], data: bytes
    ) -> Answer:
        number, loaded = self._device.find_kernel(
            self._owner(fields["module"]), fields["module"], data.decode()
        )
        kernel = loaded.kernel
        parameters = sorted(kernel.parameters, key=lambda one: one.ordinal)
        places = b"".join(struct.pack("<2I", one.offset, one.size) for one in parameters)
        constant = sum(len(bank) for bank in loaded.placement.banks.values())
        return {
            "function": number,
            "max_threads": self._device.most_threads(kernel),
            "shared": kernel.shared,
            "constant": constant,
            "local": kernel.local,
            "registers": kernel.registers,
            "parameters": len(parameters),
        }, places

    def _module_global(
        self, _context: Context | None, fields: Mapping[str, int], data: bytes
    ) -> Answer:
        placed = self._device.module(self._owner(fields["module"]), fields["module"])
        found = placed.variables.get(data.decode())
        if found is None:
            raise CudaError(
                _NOT_FOUND, f"cuModuleGetGlobal: the module has no variable {data.decode()}"
            )
        return {"address": found[0], "size": found[1]}, b""

    def _module_functions(
        self, _context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        names = list(
            self._device.module(self._owner(fields["module"]), fields["module"]).module.kernels
        )
        return {"count": len(names)}, b"".join(name.encode() + b"\0" for name in names)

    def _kernel_owner(self, function: int) -> Context:
        for context in self._contexts.values():
            if function in context.kernels:
                return context
        raise CudaError(400)

    def _occupancy(
        self, _context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        loaded = self._device.kernel(self._kernel_owner(fields["function"]), fields["function"])
        return {
            "blocks": self._device.blocks(
                loaded.kernel, fields["threads"], fields["dynamic_shared"]
            )
        }, b""

    def _launch(self, context: Context | None, fields: Mapping[str, Any], data: bytes) -> Answer:
        loaded = self._device.kernel(self._kernel_owner(fields["function"]), fields["function"])
        output = self._device.launch(
            self._present(context),
            loaded,
            data,
            fields["grid"],
            fields["block"],
            fields["dynamic_shared"],
            self._check_connection,
        )
        return {"failed": 0}, output.text.encode("latin-1", "replace")

    def _clock(self, _context: Context | None, _fields: Mapping[str, int], _data: bytes) -> Answer:
        return {"cycles": self._device.cycles}, b""

    def _link(self, _context: Context | None, _fields: Mapping[str, int], data: bytes) -> Answer:
        inputs = []
        while data:
            size, max_registers, level = _LINK_INPUT.unpack_from(data)
            end = _LINK_INPUT.size + size
            inputs.append((data[_LINK_INPUT.size : end], JitOptions(max_registers, level)))
            data = data[end:]
        return {}, self._server.link(inputs)

    def _get_limit(
        self, context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        return {"value": self._device.get_limit(self._present(context), fields["limit"])}, b""

    def _set_limit(
        self, context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        self._device.set_limit(self._present(context), fields["limit"], fields["value"])
        return {}, b""

    def _set_shared(
        self, _context: Context | None, fields: Mapping[str, int], _data: bytes
    ) -> Answer:
        loaded = self._device.kernel(self._kernel_owner(fields["function"]), fields["function"])
        most = self._device.attributes[8]
        if (bytes_ := loaded.kernel.shared + fields["dynamic_shared"]) > most:
            raise CudaError(
                _INVALID_VALUE,
                f"kernel {loaded.kernel.name}: a block with {bytes_} bytes of shared memory, the most are {most}",
            )
        return {}, b""
