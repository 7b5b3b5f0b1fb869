"""Makes a simulator on the compiled engine; without elaboration if the design was compiled earlier."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.sim import Simulator

from sim.engine import cache
from sim.engine.build import compiler_identity
from sim.engine.errors import EngineError
from sim.engine.identity import Identity, identify
from sim.engine.internals import Fragment
from sim.engine.layout import StateLayout
from sim.support.activity import activity

__all__ = ["RestoredDesign", "RestoredSimulator", "simulator"]


class RestoredDesign:
    """A substitute for an elaborated design in simulators and testbenches: it provides clock
    domains.
    """

    def __init__(self, domains: dict[str, Any]) -> None:
        self.fragment = self
        self.domains = domains

    def lookup_domain(self, domain: str, context: Any) -> Any:
        """Returns the domain of this name; KeyError if there is none."""
        if context is not None:
            raise EngineError(
                "engine compiled knows the domains of the whole design only, not those of a part of it"
            )
        return self.domains[domain]


class RestoredSimulator(Simulator):
    """Amaranth's simulator of an elaborated or restored design, on an engine that exists already."""

    def __init__(self, design: Any, engine: Any) -> None:
        self._design: Any = design
        self._engine: Any = engine
        self._clocked: set[Any] = set()
        self._running = False


def simulator(engine: Callable[[Any, StateLayout], Any], design: Any) -> Simulator:
    """Returns a simulator of a design; ``engine`` makes the engine from a design and its layout."""
    identity = identify(design, compiler_identity())
    if identity is not None and cache.is_on():
        layout = _known(identity, _record_of(identity))
        if layout is not None:
            for part in identity.elaboratables:
                # Prevents Amaranth's warning about objects that were not elaborated.
                part._MustUse__used = True
            return RestoredSimulator(
                RestoredDesign(layout.domains), engine(RestoredDesign(layout.domains), layout)
            )
    from sim.engine.translate import compiled  # Most starts do not need the translator.

    cache.prepare()
    with activity("elaborating the design"):
        elaborated = Fragment.get(design, platform=None).prepare()
    layout = compiled(elaborated, cache.model_folder())
    if identity is not None and cache.is_on():
        cache.keep(_record_of(identity), json.dumps(layout.record(identity)).encode())
        cache.trim()
    return RestoredSimulator(elaborated, engine(elaborated, layout))


def _record_of(identity: Identity) -> Path:
    """Returns the path of a design's record."""
    return cache.cache_folder() / f"{identity.digest[:24]}.json"


def _known(identity: Identity, record: Path) -> StateLayout | None:
    """Returns the layout from a design's record; None without a record, or if its model was
    removed.
    """
    content = cache.load(record)
    if content is None:
        return None
    layout = StateLayout.restore(json.loads(content), identity, cache.cache_folder())
    return layout if cache.is_sealed(layout.library) else None
