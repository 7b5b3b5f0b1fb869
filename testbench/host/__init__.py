"""Tests of the host's registers."""
