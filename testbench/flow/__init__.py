"""The flow unit with its stack, against the warp model."""
