"""Tests of the warp model and the thread model."""
