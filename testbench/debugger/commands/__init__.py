"""The debugger's commands and its driver, on warps and registers that are made by hand."""
