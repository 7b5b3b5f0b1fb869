"""The call/return stack: its driver, cases, random operations, and the stack as a plain list."""
