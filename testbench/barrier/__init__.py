"""The barrier unit, against the warp model."""
