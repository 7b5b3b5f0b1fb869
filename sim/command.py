"""What the commands of this package share."""

import argparse
from typing import NoReturn

__all__ = ["Parser"]


class Parser(argparse.ArgumentParser):
    """Parses a command's arguments; a wrong one gets one line on stderr and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        self.exit(2, f"{self.prog}: {message}\n")
