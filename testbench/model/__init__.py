"""The warp model and the thread model."""
