"""The streams on which units offer gathers and writes to issue, as named by the drivers of both
issue units.
"""

from enum import Enum
from typing import Any, NamedTuple

from rtl.layouts import GATHERING, LaneClient

__all__ = [
    "GATHERS",
    "OPERATION_STREAMS",
    "WRITES",
    "OperationKind",
    "OperationStream",
    "offers_of",
]


class OperationKind(Enum):
    """Whether an operation reads or writes registers."""

    GATHER = "gather"
    WRITE = "write"


class OperationStream(NamedTuple):
    """The gathers or the writes of one client."""

    kind: OperationKind
    client: LaneClient


GATHERS = tuple(OperationStream(OperationKind.GATHER, client) for client in GATHERING)
WRITES = tuple(OperationStream(OperationKind.WRITE, client) for client in LaneClient)
OPERATION_STREAMS = (*GATHERS, *WRITES)


def offers_of(issue: Any) -> dict[OperationStream, Any]:
    """The offer port of an issue unit for each stream."""
    ports = (*issue.gather_offers, *issue.write_offers)
    return dict(zip(OPERATION_STREAMS, ports, strict=True))
