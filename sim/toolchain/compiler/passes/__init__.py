"""Passes over the operations of a function, each under its textbook name."""
