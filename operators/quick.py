"""Frozen dataclasses that are made in the time of others.

The `__init__` that dataclasses generates for a frozen class sets fields by `object.__setattr__`,
which looks each up by name: 2.3 times what an assignment takes. A step of few rows makes hundreds.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

Made = TypeVar("Made")


def quick(made: type[Made]) -> type[Made]:
    """The class, whose `__init__` sets its fields by their slots. Takes the same arguments.

    Requires: a dataclass(frozen=True, slots=True), all of whose fields are arguments and have
    a default value or none, without `__post_init__`.
    """
    fields = dataclasses.fields(made)  # type: ignore[arg-type]  # it is one
    assert not hasattr(made, "__post_init__"), "nobody would call it"
    known: dict[str, Any] = {}
    arguments: list[str] = []
    for field in fields:
        assert field.init and field.default_factory is dataclasses.MISSING, field.name
        known[f"_set_{field.name}"] = made.__dict__[field.name].__set__
        if field.default is dataclasses.MISSING:
            arguments.append(field.name)
        else:
            known[f"_default_{field.name}"] = field.default
            arguments.append(f"{field.name}=_default_{field.name}")
    sets = "".join(f"\n    _set_{field.name}(self, {field.name})" for field in fields)
    exec(f"def __init__(self, {', '.join(arguments)}):{sets}", known)
    init = known["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = made.__init__.__annotations__
    made.__init__ = init  # type: ignore[method-assign]  # with the same arguments
    return made
