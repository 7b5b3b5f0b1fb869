"""Fetch and issue."""
