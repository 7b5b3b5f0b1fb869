"""The CUDA server, tested through its protocol: memory, modules, kernels and launches of programs,
and their errors.
"""

import os
import socket
import struct
import time

import pytest

from rtl.params import PRESETS
from sim.cuda import device as device_module
from sim.cuda import server as server_module
from sim.cuda.device import Device
from sim.cuda.errors import RESULTS, CudaError
from sim.cuda.protocol import CALLS, REPLY_HEADER, REQUEST_HEADER, VERSION
from sim.cuda.server import Server
from sim.launch.memory import OutOfMemoryError
from sim.launch.programs import read_program
from sim.runner import ModelRunner
from testbench.programs import PROGRAMS

SIZE = 1 << 22
PTX = """\
.version 4.3
.target sm_50
.address_size 64
.visible .global .align 4 .u32 total[2];
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
.visible .entry adds(.param .u64 out, .param .u32 more)
{
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    mov.u32 %r0, %tid.x;
    ld.param.u32 %r1, [more];
    add.u32 %r1, %r1, %r0;
    ld.param.u64 %d0, [out];
    mul.wide.u32 %d1, %r0, 4;
    add.u64 %d0, %d0, %d1;
    st.global.u32 [%d0], %r1;
    ret;
}
.visible .entry endless()
{
again:
    bra again;
}
.visible .entry shares()
{
    .shared .align 4 .b8 kept[1024];
    .reg .b32 %r<2>;
    ld.shared.u32 %r0, [kept];
    st.shared.u32 [kept+4], %r0;
    ret;
}
"""
PTX = PTX.replace(".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);\n", "")


class Client:
    """The program's side of a connection."""

    def __init__(self, server):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(f"\0{server.name}")
        self.context = self.sticky = 0

    def read(self, count):
        content = b""
        while len(content) < count:
            part = self.socket.recv(count - len(content))
            if not part:
                raise EOFError
            content += part
        return content

    def hello(self, version=VERSION):
        """Returns the result, the fields, and the file of the device's memory."""
        request = CALLS["hello"].request.pack(version=version, process=os.getpid())
        self.socket.sendall(REQUEST_HEADER.pack(call=1, context=0, data_bytes=0) + request)
        header, files, _, _ = socket.recv_fds(self.socket, REPLY_HEADER.size, 1)
        found = REPLY_HEADER.unpack(header)
        assert (found["sticky"], found["data_bytes"]) == (0, 0)
        result = found["result"]
        if result:
            return result, {}, files
        return 0, CALLS["hello"].reply.unpack(self.read(CALLS["hello"].reply.size)), files

    def ask(self, name, data=b"", **fields):
        """Returns the name of the result, the fields of the reply, and its data."""
        call = CALLS[name]
        header = REQUEST_HEADER.pack(call=call.number, context=self.context, data_bytes=len(data))
        self.socket.sendall(header + call.request.pack(**fields) + data)
        found = REPLY_HEADER.unpack(self.read(REPLY_HEADER.size))
        self.sticky = found["sticky"]
        reply = {}
        if found["result"] == 0:
            reply = call.reply.unpack(self.read(call.reply.size))
        return RESULTS[found["result"]][0], reply, self.read(found["data_bytes"])

    def get(self, name, data=b"", **fields):
        """Returns the fields of a call that must succeed."""
        result, reply, _ = self.ask(name, data, **fields)
        assert result == "CUDA_SUCCESS"
        return reply

    def begin(self):
        """Connects and creates a context."""
        self.hello()
        self.context = self.get("context_create")["context"]
        return self

    def function(self, name):
        module = self.get("module_load", PTX.encode(), max_registers=0, level=4)["module"]
        return self.get("module_function", name.encode(), module=module)["function"]

    def launch(self, function, parameters=b"", grid=(1, 1, 1), block=(1, 1, 1), dynamic_shared=0):
        return self.ask(
            "launch",
            parameters,
            function=function,
            grid=grid,
            block=block,
            dynamic_shared=dynamic_shared,
            cooperative=0,
        )


@pytest.fixture
def server():
    made = Server(Device(ModelRunner(PRESETS["tiny"]), SIZE, 5_000))
    yield made
    made.close()
    made.device.memory.close()


@pytest.fixture
def connect(server):
    """Returns a function that connects a program without sending a message."""
    made = []

    def connected():
        made.append(Client(server))
        return made[-1]

    yield connected
    for one in made:
        one.socket.close()


@pytest.fixture
def client(connect):
    """A program with a context."""
    return connect().begin()


def test_a_program_that_says_hello_gets_the_devices_memory(server, connect):
    made = connect()
    result, fields, files = made.hello()
    assert result == 0 and len(files) == 1
    assert fields == {"base": server.device.memory.first, "size": SIZE, "clock_khz": 1_000_000}
    assert os.fstat(files[0]).st_size >= SIZE
    os.close(files[0])


def test_a_library_of_another_version_is_refused(connect):
    made = connect()
    result, _, files = made.hello(VERSION + 1)
    assert RESULTS[result][0] == "CUDA_ERROR_UNKNOWN" and not files
    with pytest.raises((EOFError, ConnectionError)):
        made.ask("clock")


def test_a_program_of_another_user_is_refused(server, connect, monkeypatch):
    monkeypatch.setattr(server_module.os, "getuid", lambda: os.geteuid() + 1)
    made = connect()
    with pytest.raises((EOFError, ConnectionError)):
        made.read(1)
    assert server.programs == 0


def test_a_server_that_is_closed_ends_its_connections_and_takes_no_more():
    server = Server(Device(ModelRunner(PRESETS["tiny"]), SIZE, 5_000))
    made = Client(server)
    made.hello()
    server.close()
    with pytest.raises((EOFError, ConnectionError)):
        made.ask("clock")
    made.socket.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as late, pytest.raises(ConnectionError):
        late.connect(f"\0{server.name}")
    server.device.memory.close()


def test_a_device_that_is_stopped_launches_nothing_more(client, server, monkeypatch):
    stopped = []
    monkeypatch.setattr(device_module, "stop_threads", stopped.append)
    function = client.function("shares")
    assert client.launch(function)[0] == "CUDA_SUCCESS"
    server.device.stop(2)
    server.device.stop(2)
    assert stopped == [2]  # once
    assert client.launch(function)[0] == "CUDA_ERROR_LAUNCH_FAILED"
    assert len(server.device.launches) == 1


def test_a_machine_without_room_for_a_launch_is_out_of_memory(client, server, monkeypatch):
    def full(*arguments, **options):
        raise OutOfMemoryError("full")

    function = client.function("shares")
    monkeypatch.setattr(server.device._runner, "run", full)
    assert client.launch(function)[0] == "CUDA_ERROR_OUT_OF_MEMORY"
    monkeypatch.setattr(server.device._runner, "sized", full)
    assert client.launch(function)[0] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert not server.device.launches


@pytest.mark.parametrize("call", [0, 99])
def test_a_call_that_does_not_exist_ends_the_connection(connect, call):
    made = connect()
    made.hello()
    made.socket.sendall(REQUEST_HEADER.pack(call=call, context=0, data_bytes=0))
    with pytest.raises((EOFError, ConnectionError)):
        made.read(1)


def test_data_of_more_than_a_gibibyte_end_the_connection(connect):
    made = connect()
    made.hello()
    header = REQUEST_HEADER.pack(call=CALLS["link"].number, context=0, data_bytes=(1 << 30) + 1)
    made.socket.sendall(header)
    with pytest.raises((EOFError, ConnectionError)):
        made.read(1)


def test_attributes_are_asked_for_by_number_and_unknown_ones_are_0(client):
    assert client.get("device_attribute", attribute=10) == {"value": 32}
    assert client.get("device_attribute", attribute=12345) == {"value": 0}


def test_memory_is_zeroed_and_counted_and_freed(client, server):
    begin = client.get("memory_info")
    assert begin["total"] == SIZE and begin["free"] == SIZE
    first = client.get("allocate", size=1000, kind=7)["address"]
    second = client.get("allocate", size=8, kind=0)["address"]
    assert server.device.memory.read(first, 1000) == bytes(1000)
    assert client.get("memory_info")["free"] == SIZE - 1008
    assert client.get("address_range", address=first + 500, size=500) == {
        "base": first,
        "size": 1000,
        "kind": 7,
        "context": client.context,
    }
    assert (
        client.ask("address_range", address=first + 500, size=501)[0] == "CUDA_ERROR_INVALID_VALUE"
    )
    client.get("free", address=first)
    assert client.ask("free", address=first)[0] == "CUDA_ERROR_INVALID_VALUE"
    assert client.ask("free", address=second + 4)[0] == "CUDA_ERROR_INVALID_VALUE"
    assert client.get("memory_info")["free"] == SIZE - 8
    assert client.ask("allocate", size=2 * SIZE, kind=0)[0] == "CUDA_ERROR_OUT_OF_MEMORY"


def test_contexts_have_numbers_and_own_what_was_made_in_them(client):
    first = client.context
    address = client.get("allocate", size=64, kind=1)["address"]
    client.context = client.get("context_create")["context"]
    assert client.context == first + 1
    assert client.get("address_range", address=address, size=1)["context"] == first
    client.get("context_destroy", context=first)
    assert client.get("memory_info")["free"] == SIZE
    assert client.ask("context_destroy", context=first)[0] == "CUDA_ERROR_INVALID_CONTEXT"
    client.context = first
    assert client.ask("allocate", size=64, kind=1)[0] == "CUDA_ERROR_INVALID_CONTEXT"


def test_limits_are_those_of_the_context(client):
    client.get("set_limit", limit=0, value=2048)
    assert client.get("get_limit", limit=0) == {"value": 2048}
    assert client.ask("get_limit", limit=9)[0] == "CUDA_ERROR_UNSUPPORTED_LIMIT"
    client.context = 0
    assert client.ask("get_limit", limit=0)[0] == "CUDA_ERROR_INVALID_CONTEXT"


def test_a_module_names_its_kernels_parameters_and_variables(client):
    module = client.get("module_load", PTX.encode(), max_registers=0, level=4)["module"]
    result, fields, names = client.ask("module_functions", module=module)
    assert (result, fields["count"]) == ("CUDA_SUCCESS", 3)
    assert sorted(names.split(b"\0")) == [b"", b"adds", b"endless", b"shares"]
    result, fields, places = client.ask("module_function", b"adds", module=module)
    assert (fields["parameters"], fields["max_threads"], fields["shared"]) == (2, 64, 0)
    assert struct.unpack("<4I", places) == (0, 8, 8, 4)
    assert 2 <= fields["registers"] <= 16 and fields["local"] == 0
    assert client.get("module_function", b"shares", module=module)["shared"] == 1024
    assert client.get("module_global", b"total", module=module)["size"] == 8
    assert client.ask("module_global", b"none", module=module)[0] == "CUDA_ERROR_NOT_FOUND"
    assert client.ask("module_function", b"none", module=module)[0] == "CUDA_ERROR_NOT_FOUND"
    client.get("module_unload", module=module)
    for call in ("module_unload", "module_functions"):
        assert client.ask(call, module=module)[0] == "CUDA_ERROR_INVALID_HANDLE"
    assert client.get("memory_info")["free"] == SIZE


def test_a_kernel_of_a_module_that_was_unloaded_is_gone(client):
    module = client.get("module_load", PTX.encode(), max_registers=0, level=4)["module"]
    function = client.get("module_function", b"adds", module=module)["function"]
    client.get("module_unload", module=module)
    assert client.launch(function)[0] == "CUDA_ERROR_INVALID_HANDLE"
    assert client.ask("occupancy", function=function, threads=1, dynamic_shared=0)[0] == (
        "CUDA_ERROR_INVALID_HANDLE"
    )


@pytest.mark.parametrize(
    ("image", "result"),
    [
        (b"garbage", "CUDA_ERROR_INVALID_IMAGE"),
        (b"\xff\xfe\xfd", "CUDA_ERROR_INVALID_IMAGE"),
        (b"\x7fELF and no more", "CUDA_ERROR_INVALID_IMAGE"),
        (b".version 4.3\n.target sm_50\nnonsense", "CUDA_ERROR_INVALID_PTX"),
    ],
)
def test_an_image_that_is_none_has_a_result_and_a_reason(client, capfd, image, result):
    found, _, reason = client.ask("module_load", image, max_registers=0, level=4)
    assert found == result and reason
    assert capfd.readouterr().err == f"warpstack: {reason.decode()}\n"
    assert client.get("clock") == {"cycles": 0}  # the connection remains open


def test_a_launch_does_what_its_kernel_says_and_is_counted(client, server):
    address = client.get("allocate", size=256, kind=0)["address"]
    function = client.function("adds")
    result, fields, printed = client.launch(
        function, struct.pack("<QI", address, 5), block=(40, 1, 1)
    )
    assert (result, fields, printed) == ("CUDA_SUCCESS", {"failed": 0}, b"")
    expected = struct.pack("<40I", *range(5, 45)) + bytes(256 - 160)
    assert server.device.memory.read(address, 256) == expected
    cycles = client.get("clock")["cycles"]
    assert cycles > 0
    client.launch(function, struct.pack("<QI", address, 5), block=(40, 1, 1))
    assert client.get("clock")["cycles"] == 2 * cycles
    (one, two) = server.device.launches
    assert (one.kernel, one.grid, one.block) == ("adds", (1, 1, 1), (40, 1, 1))
    assert one.outcome.cycles == two.outcome.cycles == cycles
    assert (one.result, one.message, one.assertions) == (0, "", ())
    assert 0 <= one.seconds < 20


@pytest.mark.parametrize(
    ("grid", "block", "result"),
    [
        ((1, 1, 1), (64, 1, 1), "CUDA_SUCCESS"),
        ((1, 1, 1), (1, 1, 64), "CUDA_SUCCESS"),
        ((1, 1, 1), (4, 4, 4), "CUDA_SUCCESS"),
        ((3, 2, 2), (1, 1, 1), "CUDA_SUCCESS"),
        ((1, 1, 1), (65, 1, 1), "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (1, 65, 1), "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (33, 2, 1), "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 1), (0, 1, 1), "CUDA_ERROR_INVALID_VALUE"),
        ((1, 0, 1), (1, 1, 1), "CUDA_ERROR_INVALID_VALUE"),
        ((1, 65536, 1), (1, 1, 1), "CUDA_ERROR_INVALID_VALUE"),
        ((1, 1, 65536), (1, 1, 1), "CUDA_ERROR_INVALID_VALUE"),
        ((1 << 31, 1, 1), (1, 1, 1), "CUDA_ERROR_INVALID_VALUE"),
    ],
)
def test_a_grid_and_a_block_have_the_limits_of_the_attributes(client, grid, block, result):
    function = client.function("shares")
    assert client.launch(function, grid=grid, block=block)[0] == result
    assert client.sticky == 0


HAS = "the machine has 2; preset"


@pytest.mark.parametrize(
    ("grid", "block", "reason"),
    [
        ((1, 1, 1), (128, 1, 1), f"a block of 128 threads needs 4 warps, {HAS} default has enough"),
        ((1, 1, 1), (33, 2, 1), f"a block of 66 threads needs 3 warps, {HAS} default has enough"),
        ((1, 1, 1), (576, 1, 1), f"a block of 576 threads needs 18 warps, {HAS} programs has enough"),
        ((1, 1, 1), (1024, 2, 1), "a block of 2048 threads, the most are 1024"),
        ((1, 1, 1), (0, 1, 1), "a block of 0,1,1: sizes are from 1 on"),
        ((1, 0, 1), (1, 1, 1), "a grid of 1,0,1: sizes are from 1 on"),
        ((1, 65536, 1), (1, 1, 1), "a grid of 1,65536,1, the most are 2147483647,65535,65535"),
    ],
)  # fmt: skip
def test_a_refused_shape_has_a_reason(client, capfd, grid, block, reason):
    function = client.function("shares")
    client.launch(function, grid=grid, block=block)
    assert capfd.readouterr().err == f"warpstack: kernel shares: {reason}\n"


def test_every_refused_call_names_itself_and_the_reason(client, server, capfd):
    module = client.get("module_load", PTX.encode(), max_registers=0, level=4)["module"]
    function = client.get("module_function", b"shares", module=module)["function"]
    context, server.device._stopped = client.context, True
    client.launch(function)
    client.ask("set_shared", function=function, dynamic_shared=1 << 20)
    client.ask("allocate", size=2 * SIZE, kind=0)
    client.ask("free", address=4)
    client.ask("get_limit", limit=9)
    client.ask("module_global", b"none", module=module)
    client.ask("module_function", b"none", module=module)
    client.ask("module_unload", module=module + 1)
    client.ask(
        "launch",
        function=function + 1,
        grid=(1, 1, 1),
        block=(1, 1, 1),
        dynamic_shared=0,
        cooperative=0,
    )
    client.context = context + 1
    client.ask("allocate", size=64, kind=1)
    client.ask("address_range", address=4, size=4)  # a query, not an error
    free = SIZE - sum(size for _, size in server.device.memory.regions.values())
    assert capfd.readouterr().err.splitlines() == [
        "warpstack: kernel shares: the device was stopped",
        f"warpstack: kernel shares: a block with {1024 + (1 << 20)} bytes of shared memory, the most are 8192",
        f"warpstack: cuMemAlloc: {2 * SIZE} bytes, {free} are free",
        "warpstack: cuMemFree: no allocation begins at 0x4",
        "warpstack: cuCtxGetLimit: unsupported limit",
        "warpstack: cuModuleGetGlobal: the module has no variable none",
        "warpstack: cuModuleGetFunction: no kernel none, the module has adds, endless, shares",
        "warpstack: cuModuleUnload: a handle is not valid",
        "warpstack: cuLaunchKernel: a handle is not valid",
        "warpstack: cuMemAlloc: no context is current in this thread",
    ]


def test_every_call_that_a_program_makes_has_the_name_of_its_function():
    never_refused = {"hello", "device_attribute", "context_create", "clock", "address_range"}
    assert set(CALLS) == set(server_module._FUNCTIONS) | never_refused


def test_a_kernel_that_fails_leaves_its_context_with_the_error(client, server, capfd):
    function = client.function("adds")
    result, _, _ = client.launch(function, struct.pack("<QI", 16, 0))
    assert result == "CUDA_SUCCESS"
    assert RESULTS[client.sticky][0] == "CUDA_ERROR_ILLEGAL_ADDRESS"
    (one,) = server.device.launches
    assert RESULTS[one.result][0] == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert one.message.startswith("kernel adds: MMU_FAULT at pc 0x")
    assert one.message.endswith(", warp 0, block [0,0,0], thread [0,0,0], address 0x10")
    assert capfd.readouterr().err == f"warpstack: launch 1: {one.message}\n"
    assert client.ask("clock")[0] == "CUDA_SUCCESS"
    assert RESULTS[client.sticky][0] == "CUDA_ERROR_ILLEGAL_ADDRESS"
    client.context = client.get("context_create")["context"]
    assert client.ask("get_limit", limit=0)[0] == "CUDA_SUCCESS" and client.sticky == 0


def test_a_kernel_that_does_not_end_is_a_timeout(client, server):
    client.launch(client.function("endless"))
    assert RESULTS[client.sticky][0] == "CUDA_ERROR_LAUNCH_TIMEOUT"
    (one,) = server.device.launches
    assert one.outcome.cycles == 5_000 and one.message.startswith("kernel endless: timeout: ")


def test_too_much_shared_memory_is_refused(client, server):
    shares = client.function("shares")
    most = 8192 - 1024
    assert client.launch(shares, dynamic_shared=most)[0] == "CUDA_SUCCESS"
    assert client.launch(shares, dynamic_shared=most + 1)[0] == "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    client.get("set_shared", function=shares, dynamic_shared=most)
    result, _, _ = client.ask("set_shared", function=shares, dynamic_shared=most + 1)
    assert result == "CUDA_ERROR_INVALID_VALUE"
    assert len(server.device.launches) == 1


@pytest.mark.parametrize(
    ("threads", "dynamic_shared", "blocks"),
    [
        (32, 0, 2),
        (33, 0, 1),
        (64, 0, 1),
        (0, 0, 0),
        (65, 0, 0),
        (32, 4096, 1),
        (1, 7168, 1),
        (1, 8192, 0),
    ],
)
def test_occupancy_is_how_many_blocks_the_machine_holds(client, threads, dynamic_shared, blocks):
    """The machine has two warps and 8 KiB of shared memory, of which a block of this kernel needs
    one.
    """
    function = client.function("shares")
    found = client.get(
        "occupancy", function=function, threads=threads, dynamic_shared=dynamic_shared
    )
    assert found == {"blocks": blocks}


def test_images_are_linked_into_one(client):
    text = PTX.encode()
    inputs = struct.pack("<QII", len(text), 0, 4) + text
    result, _, image = client.ask("link", inputs)
    assert result == "CUDA_SUCCESS" and image.startswith(b"\x7fELF")
    module = client.get("module_load", image, max_registers=0, level=4)["module"]
    assert client.get("module_functions", module=module) == {"count": 3}


def test_an_image_that_was_loaded_before_is_not_compiled_again(client, server, monkeypatch):
    compiled = []
    module_of = server_module.module_of

    def counted(content, compiler, options):
        compiled.append((len(content), options.max_registers, options.level))
        return module_of(content, compiler, options)

    monkeypatch.setattr(server_module, "module_of", counted)
    for registers in (0, 0, 20, 20, 0):
        client.get("module_load", PTX.encode(), max_registers=registers, level=4)
    assert compiled == [(len(PTX), 0, 4), (len(PTX), 20, 4)]


def test_memory_that_no_program_allocated_belongs_to_no_context(client):
    """It is a variable of a module."""
    module = client.get("module_load", PTX.encode(), max_registers=0, level=4)["module"]
    place = client.get("module_global", b"total", module=module)
    found = client.get("address_range", address=place["address"], size=8)
    assert (found["kind"], found["context"]) == (0, 0)
    assert found["base"] <= place["address"] < found["base"] + found["size"]


def test_handles_of_no_context_are_invalid_and_a_context_is_needed(client):
    for call, fields in (
        ("module_unload", {"module": 77}),
        ("module_functions", {"module": 77}),
        ("module_global", {"module": 77}),
        ("module_function", {"module": 77}),
        ("occupancy", {"function": 77, "threads": 1, "dynamic_shared": 0}),
        ("set_shared", {"function": 77, "dynamic_shared": 0}),
    ):
        assert client.ask(call, **fields)[0] == "CUDA_ERROR_INVALID_HANDLE"
    assert client.launch(77)[0] == "CUDA_ERROR_INVALID_HANDLE"
    client.context = 0
    found = client.ask("module_load", PTX.encode(), max_registers=0, level=4)[0]
    assert found == "CUDA_ERROR_INVALID_CONTEXT"


def test_several_inputs_are_linked_in_order_with_their_options(client, server, monkeypatch):
    asked = []

    def linked(inputs):
        asked.extend(inputs)
        return b"image"

    monkeypatch.setattr(server, "link", linked)
    data = b"".join(
        struct.pack("<QII", len(text), registers, level) + text
        for text, registers, level in ((b"first", 7, 4), (b"", 0, 2), (b"third one", 9, 0))
    )
    assert client.ask("link", data) == ("CUDA_SUCCESS", {}, b"image")
    assert [(text, one.max_registers, one.level) for text, one in asked] == [
        (b"first", 7, 4),
        (b"", 0, 2),
        (b"third one", 9, 0),
    ]


def test_a_launch_ends_when_its_program_does(server, connect, monkeypatch):
    """The check for this is called between the cycles of the launch."""
    made = connect().begin()
    session = server_module._Session(server, made.socket)
    session._check_connection()
    (other,) = server._connections.values()
    other.shutdown(socket.SHUT_RDWR)
    with pytest.raises(server_module._EndOfConnectionError):
        session._check_connection()


def test_the_constants_of_a_kernel_are_those_of_its_module(client):
    """The sizes are multiples of 256 bytes, as banks are placed."""
    text = PTX.replace(
        ".visible .global", ".const .align 4 .u32 table[3] = {1, 2, 3};\n.visible .global"
    )
    module = client.get("module_load", text.encode(), max_registers=0, level=4)["module"]
    assert client.get("module_function", b"adds", module=module)["constant"] == 256
    plain = client.get("module_load", PTX.encode(), max_registers=0, level=4)["module"]
    assert client.get("module_function", b"adds", module=plain)["constant"] == 0


def test_what_a_program_has_not_freed_is_freed_when_it_ends(server, connect):
    made = connect().begin()
    made.get("allocate", size=1000, kind=0)
    made.function("adds")
    assert server.programs == 1 and server.device.free_bytes() < SIZE - 1000
    made.socket.close()
    end = time.monotonic() + 10
    while server.programs and time.monotonic() < end:
        time.sleep(0.01)
    assert server.programs == 0 and server.device.free_bytes() == SIZE


def test_a_fault_of_the_server_is_unknown_and_the_connection_goes_on(
    client, server, capfd, monkeypatch
):
    monkeypatch.setattr(server.device, "free_bytes", lambda: 1 // 0)
    assert client.ask("memory_info")[0] == "CUDA_ERROR_UNKNOWN"
    assert capfd.readouterr().err == (
        "warpstack: the CUDA server failed at memory_info: ZeroDivisionError: "
        "integer division or modulo by zero\n"
    )
    assert client.get("clock") == {"cycles": 0}


def runtime(device, program, *words):
    """Returns the output of a launch of a kernel of 32 threads, and the name of its context's
    error.
    """
    context = device.make_context()
    module = device.load(context, read_program(str(PROGRAMS / "runtime" / program)))
    _, kernel = device.find_kernel(context, module, "k")
    out = device.allocate(context, 256, 0)
    parameters = struct.pack(f"<Q{len(words)}I", out, *words)
    output = device.launch(context, kernel, parameters, (1, 1, 1), (32, 1, 1), 0)
    return output, RESULTS[context.error][0]


@pytest.fixture
def device():
    made = Device(ModelRunner(PRESETS["default"]), 1 << 26, 100_000)
    yield made
    made.memory.close()


def test_what_a_kernel_prints_is_returned_once(device):
    for _ in range(2):
        output, error = runtime(device, "hello.O3.cubin")
        assert output.text and not output.failed and error == "CUDA_SUCCESS"
    first, second = device.launches
    assert first.message == second.message == ""


def test_an_assertion_that_fails_is_the_reason_and_the_result(device, capfd):
    output, error = runtime(device, "asserts.O3.cubin", 32)
    assert error == "CUDA_SUCCESS" and not output.failed
    output, error = runtime(device, "asserts.O3.cubin", 30)  # the last two threads fail
    assert error == "CUDA_ERROR_ASSERT" and len(output.failed) == 2
    one = device.launches[-1]
    assert RESULTS[one.result][0] == "CUDA_ERROR_ASSERT"
    assert one.message == output.failed[0] and one.assertions == tuple(output.failed)
    assert one.message in capfd.readouterr().err


def test_each_dimension_of_a_block_has_its_own_limit(device):
    """256 threads, of which at most 64 are in the third dimension."""
    loaded = device.make_context()
    module = device.load(loaded, read_program(str(PROGRAMS / "runtime" / "hello.O3.cubin")))
    _, kernel = device.find_kernel(loaded, module, "k")
    for block, refused in (
        ((256, 1, 1), False),
        ((1, 256, 1), False),
        ((1, 1, 64), False),
        ((2, 2, 64), False),
        ((1, 1, 65), True),
        ((257, 1, 1), True),
        ((1, 257, 1), True),
        ((129, 2, 1), True),
    ):
        out = device.allocate(loaded, 4096, 0)
        if refused:
            with pytest.raises(CudaError) as error:
                device.launch(loaded, kernel, struct.pack("<Q", out), (1, 1, 1), block, 0)
            assert RESULTS[error.value.result][0] == "CUDA_ERROR_INVALID_VALUE"
        else:
            device.launch(loaded, kernel, struct.pack("<Q", out), (1, 1, 1), block, 0)
    assert device.blocks(kernel.kernel, 256, 0) == 1 and device.blocks(kernel.kernel, 257, 0) == 0
