"""What the pipeline of the stack does for a warp in a step."""

from amaranth.hdl import Value
from amaranth.lib import enum

__all__ = ["PUSHES", "UNWINDS", "StepOperation", "StepOperationView"]


class StepOperationView(enum.EnumView):
    """A :class:`StepOperation` in hardware, with its predicates."""

    @property
    def is_push(self) -> Value:
        """Whether the operation pushes a token, if there is room for it."""
        return self._is_one_of(*PUSHES)

    @property
    def counts_call(self) -> Value:
        """Whether the operation pushes a token that counts as a call, which fails at the limit of
        API calls."""
        return self._is_one_of(StepOperation.CALL, StepOperation.PREPARE_CALL)

    @property
    def is_unwind(self) -> Value:
        """Whether the operation pops tokens until one of them ends it; it takes a step for each
        token."""
        return self._is_one_of(*UNWINDS)

    @property
    def needs_token(self) -> Value:
        """Whether the operation is an unwind that must end at a certain kind of token: it is an
        error if the stack has none."""
        return self._is_one_of(StepOperation.POP_QUAD, StepOperation.RESTORE)

    @property
    def is_blocking(self) -> Value:
        """Whether the warp is busy, and its next request waits, until the operation is
        committed."""
        return self._is_one_of(*_BLOCKING)

    @property
    def moves_region(self) -> Value:
        """Whether the operation moves the warp's stack to another region of memory."""
        return self._is_one_of(StepOperation.LAUNCH, StepOperation.SET_BASE)

    @property
    def changes_mode(self) -> Value:
        """Whether the operation enters or leaves the trap handler."""
        return self._is_one_of(StepOperation.SET_MODE, StepOperation.RESTORE)

    @property
    def has_no_result(self) -> Value:
        """Whether the operation sends no result from the pipeline: a WRITE_BACK, which waits in the
        engine, or a LOAD, which belongs to no request."""
        return self._is_one_of(StepOperation.WRITE_BACK, StepOperation.LOAD)

    def _is_one_of(self, *operations: "StepOperation") -> Value:
        return self.as_value().matches(*(each.value for each in operations))


class StepOperation(enum.Enum, shape=5, view_class=StepOperationView):
    """What a step does: what was requested, or what an operation that was parked does when it
    comes back. Without ``enable`` a request is NONE."""

    NONE = 0
    GET_BASE = 1
    GET_POINTER = 2
    SET_MODE = 3
    """Enter the trap handler, or leave it."""
    PUSH = 4
    CALL = 5
    """A push that counts as a call; at the limit of calls an error."""
    PREPARE_CALL = 6
    """A push that counts as a call, and clears the kill bit; at the limit of calls it pushes
    nothing and sets the kill bit."""
    SET_POINTER = 8
    SET_BASE = 9
    WRITE_BACK = 10
    """Some lines are not in memory: the operation parks until they are."""
    FINISH_WRITE_BACK = 11
    """Memory has all lines: the result of a write-back."""
    LAUNCH = 12
    LOAD = 13
    """The topmost line, which has room for the next token, has come from memory."""
    UNWIND = 16
    """Ends at a token that some thread waits for."""
    POP_QUAD = 17
    """Ends at the topmost token that is no hole, which has to be a QUAD token."""
    RESTORE = 18
    """Ends at a trap frame, and leaves the trap handler."""
    CLEAR = 19
    """Looks at no token: the stack is emptied."""


PUSHES = (StepOperation.PUSH, StepOperation.CALL, StepOperation.PREPARE_CALL)
UNWINDS = (
    StepOperation.UNWIND, StepOperation.POP_QUAD, StepOperation.RESTORE, StepOperation.CLEAR)
_BLOCKING = (
    *UNWINDS, StepOperation.SET_POINTER, StepOperation.SET_BASE, StepOperation.WRITE_BACK,
    StepOperation.FINISH_WRITE_BACK, StepOperation.LAUNCH, StepOperation.LOAD)
