"""CUDA's results: their numbers, names and texts, and the mapping of the machine's errors to them."""

from collections.abc import Mapping

from rtl.isa.errors import WarpError

__all__ = ["RESULTS", "CudaError", "c_results", "result_of_warp_error"]

RESULTS: Mapping[int, tuple[str, str]] = {
    0: ("CUDA_SUCCESS", "no error"),
    1: ("CUDA_ERROR_INVALID_VALUE", "an argument is not valid"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "device memory is used up"),
    3: (
        "CUDA_ERROR_NOT_INITIALIZED",
        "cuInit was not called, or this is a child of the process that called it",
    ),
    4: ("CUDA_ERROR_DEINITIALIZED", "the driver has been shut down"),
    5: ("CUDA_ERROR_PROFILER_DISABLED", "profiler disabled"),
    6: ("CUDA_ERROR_PROFILER_NOT_INITIALIZED", "profiler not initialized"),
    7: ("CUDA_ERROR_PROFILER_ALREADY_STARTED", "profiler already started"),
    8: ("CUDA_ERROR_PROFILER_ALREADY_STOPPED", "profiler already stopped"),
    34: ("CUDA_ERROR_STUB_LIBRARY", "stub library"),
    46: ("CUDA_ERROR_DEVICE_UNAVAILABLE", "device unavailable"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA server"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "there is one device, number 0"),
    102: ("CUDA_ERROR_DEVICE_NOT_LICENSED", "device not licensed"),
    200: ("CUDA_ERROR_INVALID_IMAGE", "the image is damaged or of no known kind"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "no context is current in this thread"),
    202: ("CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "context already current"),
    205: ("CUDA_ERROR_MAP_FAILED", "map failed"),
    206: ("CUDA_ERROR_UNMAP_FAILED", "unmap failed"),
    207: ("CUDA_ERROR_ARRAY_IS_MAPPED", "array is mapped"),
    208: ("CUDA_ERROR_ALREADY_MAPPED", "already mapped"),
    209: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "the image has no code for sm_50"),
    210: ("CUDA_ERROR_ALREADY_ACQUIRED", "already acquired"),
    211: ("CUDA_ERROR_NOT_MAPPED", "not mapped"),
    212: ("CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "not mapped as array"),
    213: ("CUDA_ERROR_NOT_MAPPED_AS_POINTER", "not mapped as pointer"),
    214: ("CUDA_ERROR_ECC_UNCORRECTABLE", "ecc uncorrectable"),
    215: ("CUDA_ERROR_UNSUPPORTED_LIMIT", "unsupported limit"),
    216: ("CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "context already in use"),
    217: ("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access unsupported"),
    218: ("CUDA_ERROR_INVALID_PTX", "the PTX text does not compile"),
    219: ("CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "invalid graphics context"),
    220: ("CUDA_ERROR_NVLINK_UNCORRECTABLE", "nvlink uncorrectable"),
    221: ("CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "jit compiler not found"),
    222: ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX version is not known"),
    223: ("CUDA_ERROR_JIT_COMPILATION_DISABLED", "jit compilation disabled"),
    224: ("CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "unsupported exec affinity"),
    225: ("CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "unsupported devside sync"),
    226: ("CUDA_ERROR_CONTAINED", "contained"),
    300: ("CUDA_ERROR_INVALID_SOURCE", "invalid source"),
    301: ("CUDA_ERROR_FILE_NOT_FOUND", "a file can't be read"),
    302: ("CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found"),
    303: ("CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object init failed"),
    304: ("CUDA_ERROR_OPERATING_SYSTEM", "operating system"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "a handle is not valid"),
    401: ("CUDA_ERROR_ILLEGAL_STATE", "not allowed in this state"),
    402: ("CUDA_ERROR_LOSSY_QUERY", "lossy query"),
    500: ("CUDA_ERROR_NOT_FOUND", "no such name"),
    600: ("CUDA_ERROR_NOT_READY", "not done yet"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel accessed an address that is not allocated"),
    701: (
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "the machine is too small for a block of this launch",
    ),
    702: ("CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel did not end within the limit of cycles"),
    703: ("CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "launch incompatible texturing"),
    704: ("CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access already enabled"),
    705: ("CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access not enabled"),
    708: ("CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "primary context active"),
    709: ("CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"),
    710: ("CUDA_ERROR_ASSERT", "an assertion of a kernel failed"),
    711: ("CUDA_ERROR_TOO_MANY_PEERS", "too many peers"),
    712: ("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory already registered"),
    713: ("CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory not registered"),
    714: ("CUDA_ERROR_HARDWARE_STACK_ERROR", "an error of a call/return stack"),
    715: (
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "a kernel executed an instruction that this machine does not have",
    ),
    716: (
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "a kernel accessed an address that is not a multiple of the access size",
    ),
    717: ("CUDA_ERROR_INVALID_ADDRESS_SPACE", "a kernel accessed the wrong address space"),
    718: ("CUDA_ERROR_INVALID_PC", "a kernel's program counter left its code"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"),
    720: ("CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "cooperative launch too large"),
    721: ("CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory leak"),
    800: ("CUDA_ERROR_NOT_PERMITTED", "not permitted"),
    801: ("CUDA_ERROR_NOT_SUPPORTED", "not supported by this driver"),
    802: ("CUDA_ERROR_SYSTEM_NOT_READY", "system not ready"),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system driver mismatch"),
    804: ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "compat not supported on device"),
    805: ("CUDA_ERROR_MPS_CONNECTION_FAILED", "mps connection failed"),
    806: ("CUDA_ERROR_MPS_RPC_FAILURE", "mps rpc failure"),
    807: ("CUDA_ERROR_MPS_SERVER_NOT_READY", "mps server not ready"),
    808: ("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "mps max clients reached"),
    809: ("CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "mps max connections reached"),
    810: ("CUDA_ERROR_MPS_CLIENT_TERMINATED", "mps client terminated"),
    811: ("CUDA_ERROR_CDP_NOT_SUPPORTED", "cdp not supported"),
    812: ("CUDA_ERROR_CDP_VERSION_MISMATCH", "cdp version mismatch"),
    900: ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "stream capture unsupported"),
    901: ("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "stream capture invalidated"),
    902: ("CUDA_ERROR_STREAM_CAPTURE_MERGE", "stream capture merge"),
    903: ("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "stream capture unmatched"),
    904: ("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "stream capture unjoined"),
    905: ("CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "stream capture isolation"),
    906: ("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "stream capture implicit"),
    907: ("CUDA_ERROR_CAPTURED_EVENT", "captured event"),
    908: ("CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "stream capture wrong thread"),
    909: ("CUDA_ERROR_TIMEOUT", "timeout"),
    910: ("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "graph exec update failure"),
    911: ("CUDA_ERROR_EXTERNAL_DEVICE", "external device"),
    912: ("CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"),
    913: ("CUDA_ERROR_FUNCTION_NOT_LOADED", "function not loaded"),
    914: ("CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type"),
    915: ("CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration"),
    916: ("CUDA_ERROR_KEY_ROTATION", "key rotation"),
    999: ("CUDA_ERROR_UNKNOWN", "the CUDA server has ended, or failed"),
}
"""Name and text of results, by number."""


class CudaError(Exception):
    """The failure of a call: the number of a result, and a line for the user, which may be empty."""

    def __init__(self, result: int, message: str = "") -> None:
        super().__init__(message or RESULTS[result][1])
        self.result = result
        self.message = message


_OF_WARP_ERRORS: Mapping[int, tuple[str, ...]] = {
    700: ("MMU_FAULT", "OOR_ADDR"),
    716: ("MISALIGNED_ADDR",),
    717: ("INVALID_ADDR_SPACE",),
    715: (
        "ILLEGAL_INSTR_ENCODING",
        "ILLEGAL_INSTR_PARAM",
        "ILLEGAL_INSTR_PARAM2",
        "ILLEGAL_SPH_INSTR_COMBO",
        "OOR_REG",
        "MISALIGNED_REG",
    ),
    718: ("PC_WRAP", "MISALIGNED_PC", "PC_OVERFLOW"),
    714: ("STACK_ERROR", "API_STACK_ERROR", "RET_EMPTY_STACK_ERROR", "STACK_OVERFLOW"),
}
"""Names of the machine's errors by result; all other errors are CUDA_ERROR_LAUNCH_FAILED."""
LAUNCH_FAILED = 719


def result_of_warp_error(error: WarpError) -> int:
    """Returns the result that reports a warp error to a CUDA program."""
    return next(
        (result for result, names in _OF_WARP_ERRORS.items() if error.name in names), LAUNCH_FAILED
    )


def c_results() -> str:
    """Returns the results as a C header."""
    rows = "\n".join(
        f'    {{{number}, "{name}", "{text}"}},' for number, (name, text) in RESULTS.items()
    )
    return (
        "/* Made from sim/cuda/errors.py. */\n#pragma once\n"
        "struct result_text {\n    int number;\n    const char *name, *text;\n};\n"
        f"static const struct result_text RESULTS[] = {{\n{rows}\n}};\n"
    )
