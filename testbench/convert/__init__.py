"""The conversion unit, against the warp model and exact formulas."""
