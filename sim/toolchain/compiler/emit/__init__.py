"""From operations with registers to words and statements of the assembler."""
