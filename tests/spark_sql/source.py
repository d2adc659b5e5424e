"""The files of Spark's SQL suite: statements in order, each with what Spark answered.

Source: SQLQueryTestSuite of Spark, whose recorded answers are in `sql-tests/results` of the
artifact of its tests.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass

from tests.spark_artifact import jar

#: Files of another language (types of NTZ, no ANSI, functions that the suite brings along, scripts,
#: VARIANT), and those whose statements describe or show.
_ELSEWHERE = re.compile(
    r"(nonansi|udf|udaf|udtf|scripting|timestampNTZ|variant)/|describe|explain|show|-legacy|old-behavior"
)
#: Settings under which the language has another meaning.
_CHANGED = re.compile(
    r"--SET.*(legacy|ansi\.enabled *= *false|binaryOutput|doubleQuoted|Grouping)", re.IGNORECASE
)
_ERROR = re.compile(r'^(org\.apache\.|java\.)[\w.$]+\n(\{\n|[^\t]*)|^\{\n  "errorClass"')


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the lines that Spark printed: a row each, its values between tabs. `error`:
    its class, where Spark refused the statement or failed."""

    text: str
    answer: str
    error: str | None

    @property
    def words(self) -> str:
        """The text without comments."""
        return re.sub(r"^\s*--.*$", "", self.text, flags=re.MULTILINE).strip()


def files() -> dict[str, tuple[Statement, ...]]:
    """By name of the file its statements, of the files in this language. Raises: Missing."""
    found = {}
    with zipfile.ZipFile(jar()) as archive:
        for path in sorted(archive.namelist()):
            match = re.fullmatch(r"sql-tests/results/(.+)\.sql\.out", path)
            if match is None or _ELSEWHERE.search(match[1]):
                continue
            asked = archive.read(f"sql-tests/inputs/{match[1]}.sql").decode()
            if not _CHANGED.search(asked):
                found[match[1]] = _statements(archive.read(path).decode())
    return found


def _statements(recorded: str) -> tuple[Statement, ...]:
    found = []
    for part in re.split(r"^-- !query\n", recorded, flags=re.MULTILINE)[1:]:
        text, _, rest = part.partition("\n-- !query schema\n")
        _, _, answer = rest.partition("\n-- !query output\n")
        failed = _ERROR.match(answer)
        name = re.search(r'"errorClass" : "([^"]+)"', answer)
        error = None if failed is None else name[1] if name else answer.split("\n", 1)[0]
        found.append(Statement(text.strip(), answer.rstrip("\n"), error))
    return tuple(found)
