"""Executes notebooks and keeps what their cells show: ``python -m testbench.notebooks.execute docs/machine.ipynb``.

A cell shows what it prints, then the value of its last line if that is an expression, as text or, where it has one, as
an SVG picture. Nothing of Jupyter is needed.
"""

import ast
import io
import json
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sim.support.command import write_file

__all__ = ["execute", "shown"]


def _run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Executes a cell; returns its outputs."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with redirect_stdout(said):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append(
            {
                "output_type": "stream",
                "name": "stdout",
                "text": said.getvalue().splitlines(keepends=True),
            }
        )
    if value is not None:
        content = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_svg_"):
            content = {
                "image/svg+xml": value._repr_svg_().splitlines(keepends=True),
                "text/plain": ["(a picture)"],
            }
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": None,
                "metadata": {},
                "data": content,
            }
        )
    return outputs


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with what its cells show now."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [
        cell
        if cell["cell_type"] != "code"
        else {**cell, "outputs": _run("".join(cell["source"]), names)}
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def shown(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What each code cell shows."""
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def main(paths: list[str]) -> None:
    """Executes each file and writes it again."""
    for path in (Path(path).resolve() for path in paths):
        with TemporaryDirectory() as folder, chdir(folder):
            executed = execute(json.loads(path.read_text(encoding="utf-8")))
        write_file(path, (json.dumps(executed, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1:])
