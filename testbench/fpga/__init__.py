"""Boards, their memory and video."""
