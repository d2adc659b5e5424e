"""Immutable nodes of expressions and plans, compared by structure, that know their hash.

Plans are deep, and the planner and the running dataflow look nodes up all the time: each hash is
computed once. It stays out of pickles, since another process salts its hashes otherwise.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from typing_extensions import dataclass_transform

C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def node(cls: C) -> C:
    """A frozen, slotted dataclass that computes its structural hash once."""
    cls.__annotations__["_hash"] = "int"
    cls._hash = dataclasses.field(init=False, repr=False, compare=False, default=0)  # type: ignore[attr-defined]
    made: Any = dataclasses.dataclass(frozen=True, slots=True)(cls)
    structural_hash = made.__hash__
    names = tuple(f.name for f in dataclasses.fields(made) if f.init)

    def cached_hash(self: Any) -> int:
        known: int = self._hash
        if not known:
            known = structural_hash(self) or 1
            object.__setattr__(self, "_hash", known)
        return known

    def reduce(self: Any) -> tuple[Any, ...]:
        return made, tuple(getattr(self, name) for name in names)

    made.__hash__ = cached_hash
    made.__reduce__ = reduce
    result: C = made
    return result
