"""The parts that a component's own module contains, found without elaborating those parts."""

from typing import Any

from sim.engine.identity import identify

__all__ = ["submodules"]


def submodules(component: Any) -> dict[str, Any]:
    """The submodules that ``elaborate`` of a component adds, by name.

    The component counts as used afterwards, and so does all that it contains: Amaranth warns of nothing.
    """
    identity = identify(component)
    for part in identity.elaboratables if identity is not None else ():
        part._MustUse__used = True
    module = component.elaborate(None)
    module._MustUse__used = True
    for part, _ in module._named_submodules.values():
        part._MustUse__used = True  # some are made as the component is elaborated
    return {name: part for name, (part, _) in module._named_submodules.items()}
