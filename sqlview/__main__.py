"""Commands for stores: `python -m sqlview show PATH`, `check PATH [--verify]`, `backup PATH DEST`,
and `repair PATH`.

All but the last open it for reading: a session may be writing it meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import closing

import sqlview
from sqlview.catalog import View
from sqlview.recovery import affected
from sqlview.store import Store, backup


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns: 0; 1 for a damaged store, or a view that is not right; 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m sqlview", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show = commands.add_parser("show", help="print tables, streams, views, sizes and the epoch")
    show.set_defaults(run=_show)
    check = commands.add_parser("check", help="read every file, and check what it says")
    check.add_argument("--verify", action="store_true", help="compare every view with a recompute")
    check.set_defaults(run=_check)
    copy = commands.add_parser("backup", help="copy the store as it is at one epoch")
    copy.set_defaults(run=_backup)
    repair = commands.add_parser(
        "repair", help="compute anew what lies in damaged files: indexes and views"
    )
    repair.set_defaults(run=_repair)
    for command in (show, check, copy, repair):
        command.add_argument("path", metavar="PATH")
    copy.add_argument("destination", metavar="DEST")
    given = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = given.run
    try:
        return run(given)
    except sqlview.SqlViewError as error:
        print(error, file=sys.stderr)
        return 1


def _show(given: argparse.Namespace) -> int:
    with (
        closing(Store(given.path, "close", read_only=True)) as store,
        sqlview.connect(given.path, read_only=True) as db,
    ):
        print(f"epoch {db.epoch}")
        print(f"on disk: {store.checkpoint_bytes:,} bytes of checkpoint, {store.nbytes:,} of log")
        metrics = db.metrics()
        print(
            f"in memory: {metrics.table_bytes:,} bytes of tables, {metrics.state_bytes:,} of views"
        )
        for name in db._catalog.names():
            entry = db._catalog.any(name)
            kind = type(entry).__name__.lower()
            known = db._catalog.relation(entry.name)
            rows = "" if kind == "stream" or known is None else f", {known.rows:,} rows"
            if isinstance(entry, View) and not entry.computed:
                rows = ", lazy: nobody has read it so far"
            columns = ", ".join(f"{f.name} {f.type}" for f in entry.schema)
            print(f"{kind} {entry.name} ({columns}){rows}")
    return 0


def _check(given: argparse.Namespace) -> int:
    wrong = 0
    with closing(Store(given.path, "close", read_only=True, repair=True)) as store:
        damaged = store.damaged()
        if damaged and store.checkpoint is not None:
            for damage in (*damaged.values(), *affected(store.checkpoint, damaged)):
                print(damage, file=sys.stderr)
            print(f"Hint: python -m sqlview repair {given.path}", file=sys.stderr)
            return 1
    with sqlview.connect(given.path, read_only=True) as db:
        print(f"every file is as it was written; the store is at epoch {db.epoch}")
        for view in db._catalog.views() if given.verify else ():
            if not view.computed:
                print(f'view "{view.name}": not verified, since nobody has read it so far')
                continue
            if db._catalog.streams_under(view):
                print(f'view "{view.name}": not verified, since it reads a stream')
                continue
            found = db.verify(view.name)
            wrong += not found.equal
            print(found)
    return 1 if wrong else 0


def _backup(given: argparse.Namespace) -> int:
    copied = backup(given.path, given.destination)
    with sqlview.connect(given.destination, read_only=True) as db:
        print(f"{copied:,} bytes copied; the copy is at epoch {db.epoch}")
    return 0


def _repair(given: argparse.Namespace) -> int:
    with closing(Store(given.path, "close", read_only=True, repair=True)) as store:
        damaged = store.damaged()
    if not damaged:
        print("no file of the checkpoint is damaged")
        return 0
    with sqlview.Session(given.path, repair=True) as db:
        db.checkpoint(even_if_same=True)
        print(f"repaired; the store is at epoch {db.epoch}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
