"""PTX, its model and its command."""
