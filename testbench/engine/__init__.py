"""Tests of both simulation engines."""
