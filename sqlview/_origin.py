"""Checks that the packages of this distribution come from one place.

`planner` and `operators` are common names, and other projects on PyPI carry them; a directory of
that name next to the user's script also goes before an installed package. Mixed packages fail late
and oddly, so this is asked at import and says what to do.

Invariant: after `check_single_origin()` returns, importing any of the packages named gives the one
beside this file.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

_DISTRIBUTION = "sqlview-spark"


def check_single_origin(packages: Sequence[str] = ("planner", "operators", "sqlview")) -> None:
    """Verify that `packages` would be imported from the directory that holds this `sqlview`.

    Imports none of them. `tpch` is left to its own `__init__`, which passes its name: who only
    uses `sqlview` may well have a `tpch` of his own.
    Raises: ImportError naming each package that is missing or elsewhere, with the remedy.
    """
    here = _parent_of_package(__file__)
    strays = []
    for package in packages:
        place = _place(package)
        if place is None:
            strays.append(f'"{package}" is not found')
        elif os.path.realpath(place) != os.path.realpath(here):
            strays.append(f'"{package}" is found in {place}')
    if strays:
        names = ", ".join(f'"{package}"' for package in packages)
        raise ImportError(
            f"the packages of {_DISTRIBUTION} come from different places\n"
            f'Detail: {names} belong together. "sqlview" is in {here}, but '
            f"{', '.join(strays)}.\n"
            "Hint: Rename or move your own files of these names, uninstall other distributions "
            f"that bring them, or install {_DISTRIBUTION} into a virtual environment of its own."
        )


def _place(package: str) -> str | None:
    """The directory, or zip archive, on the search path that `package` would be imported from."""
    try:
        spec = importlib.util.find_spec(package)
    except ValueError:  # a module put into sys.modules without a spec
        return None
    return None if spec is None else _place_of_spec(spec)


def _place_of_spec(spec: ModuleSpec) -> str | None:
    if spec.submodule_search_locations is None:  # a single file such as planner.py
        return os.path.dirname(spec.origin) if spec.origin else None
    if spec.origin is None:  # a directory without __init__.py
        return next((os.path.dirname(p) for p in spec.submodule_search_locations), None)
    return _parent_of_package(spec.origin)


def _parent_of_package(init_file: str) -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(init_file)))
