"""The serial machine: one lane, one instruction at a time."""
