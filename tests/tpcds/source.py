"""TPC-DS as Spark's own tests have it: 99 queries and the columns of 24 tables, from the artifact
of Spark's SQL tests, which is fetched once and not kept in the repository."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator

from tests.spark_artifact import jar

_SCHEMA = "org/apache/spark/sql/TPCDSSchema.class"


def queries() -> dict[str, str]:
    """The text of each query, by its name; those of two parts have two names (q14a, q14b)."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(jar()) as archive:
        for name in archive.namelist():
            match = re.fullmatch(r"tpcds/(q\d+[ab]?)\.sql", name)
            if match is not None:
                found[match[1]] = archive.read(name).decode().strip().rstrip(";")
    return dict(sorted(found.items(), key=lambda item: (int(re.sub(r"\D", "", item[0])), item[0])))


def tables() -> dict[str, dict[str, str]]:
    """By table the types of its columns; CHAR and VARCHAR as STRING."""
    with zipfile.ZipFile(jar()) as archive:
        constants = list(_texts(archive.read(_SCHEMA)))
    found: dict[str, dict[str, str]] = {}
    name = ""
    for text in constants:
        if re.fullmatch("[a-z_]+", text):
            name = text
        columns = re.findall(r"`(\w+)` (\w+(?:\(\d+(?:, ?\d+)?\))?)", text)
        if len(columns) > 1:
            kinds = {n: re.sub(r"(VAR)?CHAR\(\d+\)", "STRING", kind) for n, kind in columns}
            found[name] = kinds
    return found


def _texts(data: bytes) -> Iterator[str]:
    """The texts among the constants of a Java class, in order."""
    (count,) = struct.unpack_from(">H", data, 8)
    at, index = 10, 1
    sizes = {
        3: 4,
        4: 4,
        5: 8,
        6: 8,
        7: 2,
        8: 2,
        9: 4,
        10: 4,
        11: 4,
        12: 4,
        15: 3,
        16: 2,
        17: 4,
        18: 4,
    }
    while index < count:
        tag = data[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, at + 1)
            yield data[at + 3 : at + 3 + length].decode(errors="replace")
            at += 3 + length
        else:
            at += 1 + sizes[tag]
            index += tag in (5, 6)
        index += 1
