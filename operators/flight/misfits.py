"""What keeps data out of a table: one error for all columns that do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from planner.calculus.types import Field
from planner.errors import DataError


class Misfit(DataError):
    """A value that a column cannot take, at `row` of the data, counted from 0. `says`: what the row
    has, as it goes on after "Row 3 of the data"."""

    def __init__(self, message: str, row: int, says: str, hint: str | None = None) -> None:
        super().__init__(message, detail=f"Row {row} of the data {says}.", hint=hint)
        self.row = row
        self.says = says

    def after(self, rows: int) -> Misfit:
        """The same where the data is a piece, which so many rows precede."""
        return Misfit(self.message, self.row + rows, self.says, self.hint) if rows else self


def merged(errors: Sequence[DataError]) -> DataError:
    """All of `errors`, of which there is at least one, as one."""
    if len(errors) == 1:
        return errors[0]
    lines = [
        f"{error.message[0].upper()}{error.message[1:]}. {error.detail or ''}".rstrip()
        for error in errors
    ]
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    return DataError(
        f"the data does not fit for {len(errors)} reasons",
        detail="\n  ".join(lines),
        hint="\n  ".join(hints) or None,
    )


def null_misfit(field: Field, row: int) -> Misfit:
    return Misfit(
        f'NULL in column "{field.name}", which is NOT NULL',
        row,
        "has it first",
        "Fill in a value, or leave such rows out.",
    )


def listed(names: Sequence[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(f'"{n}"' for n in names)
