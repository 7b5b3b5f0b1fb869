"""The debugger, and code for the trap handler."""
