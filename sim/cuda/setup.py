"""The environment of CUDA programs: this project's libraries first, and a folder with the structure
of a CUDA installation that links to installed packages.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from sim.cuda.build import library_folder
from sim.cuda.protocol import SOCKET_VARIABLE
from sim.engine.build import missing_tool
from sim.engine.cache import cache_folder
from sim.toolchain.cuda import INSTALL

__all__ = ["SetupLine", "check_setup", "environment", "find_ptxas"]

_LINKS: Mapping[str, tuple[str, ...]] = {
    "nvvm/lib64/libnvvm.so": (
        "cuda_nvcc/nvvm/lib64/libnvvm.so",
        "cuda_nvcc/nvvm/lib64/libnvvm.so.4",
    ),
    "nvvm/lib64/libnvvm.so.4": (
        "cuda_nvcc/nvvm/lib64/libnvvm.so.4",
        "cuda_nvcc/nvvm/lib64/libnvvm.so",
    ),
    "nvvm/libdevice": ("cuda_nvcc/nvvm/libdevice",),
    "bin/ptxas": ("cuda_nvcc/bin/ptxas",),
    "include": ("cuda_runtime/include",),
    "lib64/libnvrtc.so": ("cuda_nvrtc/lib/libnvrtc.so.11.2", "cuda_nvrtc/lib/libnvrtc.so.12"),
    "lib64/libnvrtc.so.11.2": ("cuda_nvrtc/lib/libnvrtc.so.11.2",),
    "lib64/libnvrtc.so.12": ("cuda_nvrtc/lib/libnvrtc.so.12",),
    "lib64/libnvrtc-builtins.so.11.8": ("cuda_nvrtc/lib/libnvrtc-builtins.so.11.8",),
    "lib64/libnvrtc-builtins.so.12.9": ("cuda_nvrtc/lib/libnvrtc-builtins.so.12.9",),
}
"""Path in a CUDA installation, and the paths in the folder ``nvidia`` of NVIDIA's packages."""


def _search_path(command: Sequence[str]) -> list[Path]:
    """Returns the folders in which the packages of a command are searched: those of its Python, if
    it is one, and of this one.
    """
    places = [Path(place) for place in sys.path]
    found = shutil.which(command[0]) if command else None
    if (
        found is not None
        and Path(found).name.startswith("python")
        and not Path(found).samefile(sys.executable)
    ):
        try:
            output = subprocess.run(
                [found, "-c", "import sys; print(*sys.path, sep='\\n')"],
                capture_output=True,
                text=True,
                timeout=20,
                check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            output = ""
        places = [Path(line) for line in output.splitlines() if line] + places
    return [place / "nvidia" for place in places if (place / "nvidia").is_dir()]


def _targets(packages: Sequence[Path]) -> dict[str, Path]:
    """Returns the file or folder to which each path in a CUDA installation links."""
    found = {}
    for link, candidates in _LINKS.items():
        for package in packages:
            target = next(
                (package / name for name in candidates if (package / name).exists()), None
            )
            if target is not None:
                found[link] = target
                break
    return found


def _cuda_home(targets: Mapping[str, Path], libraries: Path) -> Path:
    """Returns a folder with the structure of a CUDA installation; made once for the same links."""
    links = {
        **targets,
        "lib64/libcudart.so": libraries / "libcudart.so",
        "lib64/libcuda.so": libraries / "libcuda.so.1",
    }
    digest = hashlib.sha256(
        "\0".join(f"{link}={target}" for link, target in links.items()).encode()
    )
    folder = cache_folder() / f"cuda-home-{digest.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    with TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch, "home")
        for link, target in links.items():
            (made / link).parent.mkdir(parents=True, exist_ok=True)
            (made / link).symlink_to(target)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # Otherwise another process was first
                raise
    return folder


def environment(socket: str, command: Sequence[str]) -> dict[str, str]:
    """Returns the variables that a command needs to find the server and the libraries."""
    libraries = library_folder()
    before = os.environ.get("LD_LIBRARY_PATH")
    home = _cuda_home(_targets(_search_path(command)), libraries)
    nvrtc = home / "lib64" / "libnvrtc.so"
    return {
        SOCKET_VARIABLE: socket,
        "LD_LIBRARY_PATH": str(libraries) + (f":{before}" if before else ""),
        "CUDA_HOME": str(home),
        "CUDA_PATH": str(home),
    } | ({"NVRTC_PATH": str(nvrtc)} if nvrtc.exists() else {})


_NVCC_LINE = "pip install nvidia-cuda-nvcc-cu11==11.8.89"


def find_ptxas(command: Sequence[str]) -> Path | None:
    """Returns the path of NVIDIA's assembler: in the packages of a command or of this Python, in a
    CUDA installation, or in PATH.

    The first one that supports sm_50 is returned: CUDA 13 has dropped it.
    """
    candidates = [_targets(_search_path(command)).get("bin/ptxas")]
    candidates += [
        Path(os.environ[name], "bin", "ptxas")
        for name in ("CUDA_HOME", "CUDA_PATH")
        if name in os.environ
    ]
    candidates.append(Path(shutil.which("ptxas") or "ptxas"))
    return next(
        (path for path in candidates if path is not None and path.exists() and _knows_sm_50(path)),
        None,
    )


def _knows_sm_50(ptxas: Path) -> bool:
    """Whether the architectures that an assembler's help lists include sm_50."""
    try:
        return (
            "sm_50"
            in subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=False).stdout
        )
    except OSError:
        return False


@dataclass(frozen=True)
class SetupLine:
    """A component that programs may need: whether it is installed, and the command that installs
    it.
    """

    component: str
    is_installed: bool
    install: str


def check_setup() -> list[SetupLine]:
    """Returns which components are installed, and which programs need the missing ones."""
    targets = _targets(_search_path([]))
    return [
        SetupLine(
            "a C compiler, for the libraries",
            missing_tool() is None,
            "apt install g++, or pip install ziglang",
        ),
        SetupLine(
            "numba", find_spec("numba") is not None, "pip install 'numba==0.60.0' 'numpy<2.1'"
        ),
        SetupLine("NVVM and libdevice, for numba", "nvvm/libdevice" in targets, _NVCC_LINE),
        SetupLine("ptxas, for --ptxas", find_ptxas([]) is not None, _NVCC_LINE),
        SetupLine(
            "NVRTC, for programs that compile C++",
            "lib64/libnvrtc.so" in targets,
            INSTALL,
        ),
        SetupLine("tinygrad", find_spec("tinygrad") is not None, "pip install tinygrad==0.14.0"),
    ]
