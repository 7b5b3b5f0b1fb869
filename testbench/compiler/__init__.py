"""The PTX compiler."""
