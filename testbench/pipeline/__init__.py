"""The execute unit around its lanes."""
