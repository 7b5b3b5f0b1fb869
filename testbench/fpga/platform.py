"""Designs elaborated for a board."""

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Elaboratable, Module


class _Top(Elaboratable):
    def __init__(self, describe: Callable[[Module, Any], None]) -> None:
        self._describe = describe

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._describe(m, platform)
        return m


def on_ulx3s(describe: Callable[[Module, Any], None]) -> str:
    """Returns the RTLIL of a design for a ULX3S: ``describe`` fills the module, and requests pads
    of the platform.
    """
    ulx3s = pytest.importorskip("amaranth_boards.ulx3s", reason="amaranth-boards is not installed")
    return ulx3s.ULX3S_85F_Platform().build(_Top(describe), do_build=False).files["top.il"]
