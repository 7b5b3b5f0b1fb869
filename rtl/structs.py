"""Whole structs: a value made of one for each field, and the fields that two structs share."""

from typing import Any

from amaranth.hdl import Cat, Value
from amaranth.lib import data

__all__ = ["common_fields", "struct_value"]


def struct_value(shape: Any, **fields: Any) -> Any:
    """A struct of ``shape`` with these fields. All of them have to be given, so that none keeps
    what it had before.

    ::

        m.d.sync += self.request.eq(struct_value(Request, warp=warp, pc=pc, error=WarpError.NONE))

    A value that is wider or narrower than its field is cut or extended as by ``eq``.

    Raises
    ------
    TypeError
        A field is missing, or is none of the struct.
    """
    layout = data.Layout.cast(shape)
    assert isinstance(layout, data.StructLayout), f"{shape!r} is no struct"
    missing = layout.members.keys() - fields.keys()
    unknown = fields.keys() - layout.members.keys()
    if missing or unknown:
        names = ", ".join(sorted(missing or unknown))
        raise TypeError(f"{'missing' if missing else 'unknown'} fields of a struct: {names}")
    values = (_fitted(Value.cast(fields[name]), field.width) for name, field in layout)
    return shape(Cat(*values))


def _fitted(value: Value, width: int) -> Value:
    """The value in ``width`` bits."""
    if len(value) >= width:
        return value[:width]
    missing = width - len(value)
    is_negative = value[-1] if value.shape().signed and len(value) else Value.cast(0)
    return Cat(value, is_negative.replicate(missing))


def common_fields(target: Any, source: Any) -> list[Any]:
    """Assigns to each field of ``target`` that ``source`` has too. Both are structs.

    ::

        m.d.sync += common_fields(self.completion, instruction)

    For what passes a stage unchanged. The fields that ``source`` does not have are assigned beside.

    Raises
    ------
    TypeError
        There is no such field, or one has another width in the other struct.
    """
    ours, theirs = (dict(data.Layout.cast(each.shape())) for each in (target, source))
    names = [name for name in ours if name in theirs]
    if not names:
        raise TypeError("the two structs have no field in common")
    for name in names:
        if ours[name].width != theirs[name].width:
            raise TypeError(
                f"field {name} is {theirs[name].width} bits wide in one struct and "
                f"{ours[name].width} in the other")
    return [Value.cast(target[name]).eq(Value.cast(source[name])) for name in names]
