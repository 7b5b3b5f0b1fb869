"""The submodules of a component, found without elaborating them."""

from typing import Any

from sim.engine.identity import identify

__all__ = ["submodules"]


def submodules(component: Any) -> dict[str, Any]:
    """Returns the submodules that ``elaborate`` of a component adds, by name.

    The component and all its parts are marked as used, so that Amaranth does not warn of unused
    elaboratables.
    """
    identity = identify(component)
    for part in identity.elaboratables if identity is not None else ():
        part._MustUse__used = True
    module = component.elaborate(None)
    module._MustUse__used = True
    for part, _ in module._named_submodules.values():
        part._MustUse__used = True  # some parts are created while the component is elaborated
    return {name: part for name, (part, _) in module._named_submodules.items()}
