"""Rows that the queries are lively over: each is made for one of the queries, with the values that
this query asks for and with keys that are this query's, so that what it joins is there. Days are
those of the calendar that come nearest to what the queries ask."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

#: Keys of a query, its days, and its rows in a table of facts; more where it counts up to more.
KEYS, DAYS, FACTS = 5, 8, 20
_FACTS = ("_sales", "_returns", "inventory")
_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like, exp.Is)
#: Few, so that sums are equal now and then, and none that adds up to nothing.
_AMOUNTS = ("1.25", "10.00", "10.00", "10.50", "40.00", "99.99", "-3.50")
_QUANTITIES = (1, 2, 2, 3, 90)

Row = tuple[Any, ...]


class Rows:
    """Makes rows for queries (their texts by name); the same ones for a seed."""

    def __init__(
        self, tables: Mapping[str, Mapping[str, str]], texts: Mapping[str, str], seed: int
    ):
        self._tables = tables
        self._rng = random.Random(seed)
        self._made: Counter[tuple[str, int]] = Counter()
        self._turns: Counter[str] = Counter()
        self._wishes = [_Wishes(text) for text in texts.values()]
        self._firsts = [1]
        for wishes in self._wishes:
            self._firsts.append(self._firsts[-1] + KEYS * wishes.weight)
        self._days = [self._days_of(wishes) for wishes in self._wishes]
        self._all_days = sorted({day for days in self._days for day in days})
        #: By table the queries over it, each as often as it weighs.
        self._turn = {
            table: [
                at for at, wishes in enumerate(self._wishes) for _ in range(wishes.share(table))
            ]
            for table in tables
        }

    def first(self, table: str) -> list[Row]:
        """The rows of a table at the beginning."""
        if table == "date_dim":
            return [self._day(day) for day in self._all_days]
        each = FACTS // 4 if _is_fact(table) else KEYS
        return [self.row(table) for _ in range(each * len(self._turn[table]))]

    def more(self, table: str, count: int, there: list[Row]) -> list[Row]:
        """At most so many rows beside those there: other than facts with keys that are free."""
        if _is_fact(table):
            return [self.row(table) for _ in range(count)] if self._turn[table] else []
        taken = {row[0] for row in there}
        if table == "date_dim":
            made = [self._day(day) for day in self._all_days]
            self._rng.shuffle(made)
        else:
            made = [self.row(table) for _ in range(KEYS * len(self._turn[table]))]
        return [row for row in made if row[0] not in taken][:count]

    def row(self, table: str) -> Row:
        """One more row, for the queries and their keys in turn."""
        rng, turn = self._rng, self._turn[table]
        query = turn[self._turns[table] % len(turn)]
        self._turns[table] += 1
        wishes, first, days = self._wishes[query], self._firsts[query], self._days[query]
        keys = KEYS * wishes.weight
        is_fact = _is_fact(table)

        def few() -> int:
            """A key, the first ones more often: sums and counts get somewhere."""
            return int(keys * rng.random() ** (1.5 + wishes.weight / 2))

        slot = few() if is_fact else self._made[table, query] % keys
        self._made[table, query] += 1
        asked = wishes.values(self._tables[table], slot, rng) if rng.random() < 0.95 else {}
        stray = rng.choice((0, 0, 0.15, 0.5)) if is_fact else 1
        row: list[Any] = []
        for place, (name, kind) in enumerate(self._tables[table].items()):
            mine = slot if rng.random() >= stray or place == 0 else few()
            if place == 0 and not is_fact:
                row.append(int(asked[name] or 0) if name in asked and mine % 2 else first + mine)
            elif rng.random() < 0.02 or (name in asked and asked[name] is None):
                row.append(None)
            elif name.endswith("date_sk"):
                row.append(
                    _number(days[mine % DAYS if rng.random() < 0.4 else rng.randrange(DAYS)])
                )
            elif name.endswith(("_sk", "_number")) and kind == "INT" and name not in asked:
                row.append(first + mine)
            elif name.endswith("_id") and kind == "STRING" and name not in asked:
                row.append(f"{first + mine}")
            else:
                row.append(self._typed(asked.get(name), kind, is_fact))
        return tuple(row)

    def _typed(self, value: str | None, kind: str, is_fact: bool) -> Any:
        rng = self._rng
        try:
            if kind == "STRING":
                return value if value is not None else rng.choice(("A", "B"))
            if kind == "DATE":
                return rng.choice(_calendar()) if value is None else _date(value)
            if kind.upper().startswith("DECIMAL"):
                scale = int(kind.rstrip(")").split(",")[1])
                return round(decimal.Decimal(value or rng.choice(_AMOUNTS)), scale)
            if value is not None:
                return int(float(value))
            return rng.choice(_QUANTITIES) if is_fact else rng.randint(1, 3)
        except (ValueError, ArithmeticError):
            return self._typed(None, kind, is_fact)

    def _days_of(self, wishes: _Wishes) -> list[datetime.date]:
        """Days that a query asks for: those that meet most of what it does."""
        rng, found = self._rng, []
        for slot in range(DAYS):
            asked = wishes.values(self._tables["date_dim"], slot, rng)
            met = {
                day: sum(
                    name in there and str(there[name]) == _plain(value)
                    for name, value in asked.items()
                )
                for day, there in _days().items()
            }
            most = max(met.values())
            best = [day for day in met if met[day] == most]
            day = rng.choice(best if rng.random() < 0.5 else best[:10])
            if slot == DAYS - 1:  # and one that is soon after
                day = min(day + datetime.timedelta(rng.randint(1, 90)), _calendar()[-1])
            found.append(day)
        return found

    def _day(self, day: datetime.date) -> Row:
        there = _days()[day]
        return tuple(
            there.get(name, "N" if kind == "STRING" else 1)
            for name, kind in self._tables["date_dim"].items()
        )


@cache
def _calendar() -> list[datetime.date]:
    first = datetime.date(1998, 1, 1)
    return [first + datetime.timedelta(n) for n in range(6 * 365)]


@cache
def _days() -> dict[datetime.date, dict[str, Any]]:
    """By day the columns of date_dim that it determines."""
    return {
        day: {
            "d_date_sk": _number(day),
            "d_date_id": day.isoformat(),
            "d_date": day,
            "d_month_seq": (day.year - 1900) * 12 + day.month - 1,
            "d_week_seq": (day.toordinal() - 1) // 7 - 99_000,
            "d_quarter_seq": (day.year - 1900) * 4 + (day.month - 1) // 3,
            "d_year": day.year,
            "d_dow": day.isoweekday() % 7,
            "d_moy": day.month,
            "d_dom": day.day,
            "d_qoy": (day.month + 2) // 3,
            "d_day_name": day.strftime("%A"),
            "d_quarter_name": f"{day.year}Q{(day.month + 2) // 3}",
        }
        for day in _calendar()
    }


def _is_fact(table: str) -> bool:
    return table.endswith(_FACTS)


def _number(day: datetime.date) -> int:
    return day.toordinal() + 1_721_425


def _date(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text.strip()[:10])


def _plain(value: str | None) -> str:
    """As a column of date_dim is written."""
    try:
        return str(int(float(value or "")))
    except ValueError:
        return (value or "").strip().removesuffix(" 00:00:00")


class _Wishes:
    """What a query asks of the columns of its tables."""

    def __init__(self, text: str):
        tree = sqlglot.parse_one(text, read="spark")
        self.tables = {table.name.lower() for table in tree.find_all(exp.Table)}
        self._absent = {
            table.name.lower() for no in tree.find_all(exp.Not) for table in no.find_all(exp.Table)
        }
        self._names = {
            alias.alias.lower(): alias.this.name.lower()
            for alias in tree.find_all(exp.Alias)
            if isinstance(alias.this, exp.Column)
        }
        self._scopes = [c for s in tree.find_all(exp.Select) if (c := _conditions(s))]
        self._found: dict[int, list[exp.Column]] = {}
        self._folded: dict[str, str | None] = {}
        #: By column those that it is to equal.
        self._equal: defaultdict[str, set[str]] = defaultdict(set)
        for equal in tree.find_all(exp.EQ):
            sides = [list(side.find_all(exp.Column)) for side in (equal.left, equal.right)]
            if all(len(side) == 1 for side in sides):
                left, right = (self._column(side[0]) for side in sides)
                self._equal[left].add(right)
                self._equal[right].add(left)
        counts = {
            alias.alias.lower()
            for alias in tree.find_all(exp.Alias)
            if isinstance(alias.this, exp.Count)
        }
        most = 0
        for node in tree.find_all(*_COMPARISONS):
            named = {c.name.lower() for c in node.find_all(exp.Column)}
            if named & counts or node.find(exp.Count) is not None:
                numbers = [
                    n.this
                    for n in node.find_all(exp.Literal)
                    if n.this.isdigit() and len(n.this) < 3
                ]
                most = max([most, *map(int, numbers)])
        #: More than 1 if what it counts is compared with a number beyond a few.
        self.weight = 1 + min(most, 24) // 3

    def share(self, table: str) -> int:
        """How much of the table's rows are for it: few where they are what there may not be."""
        if table not in self.tables:
            return 0
        if not _is_fact(table):
            return self.weight
        if table in self._absent:
            return 1
        return 4 * self.weight * (2 if self.weight > 1 else 1)

    def values(
        self, columns: Mapping[str, str], slot: int, rng: random.Random
    ) -> dict[str, str | None]:
        """Values of columns under which one of the query's SELECTs (those with conditions on these
        columns take turns, as the branches of an OR do) keeps the row, and others mostly."""
        mine = [
            scope
            for scope in self._scopes
            if any(self._column(c) in columns for node in scope for c in self._columns(node))
        ]
        found: dict[str, str | None] = {}
        if mine:
            at = slot % len(mine)
            for scope in mine[at:] + mine[:at]:
                for node in rng.sample(scope, len(scope)):
                    self._meet(node, columns, slot, rng, found)
        return found

    def _columns(self, node: exp.Expr) -> list[exp.Column]:
        """Those in an expression; those in a subquery count as many."""
        found = self._found.get(id(node))
        if found is None:
            found = list(node.find_all(exp.Column))
            if node.find(exp.Query) is not None:
                found = 2 * found
            self._found[id(node)] = found
        return found

    def _column(self, column: exp.Column) -> str:
        name = column.name.lower()
        return self._names.get(name, name)

    def _meet(
        self,
        node: exp.Expr,
        columns: Mapping[str, str],
        slot: int,
        rng: random.Random,
        found: dict[str, str | None],
    ) -> None:
        """Add to `found` what makes the condition true, for columns that it lacks."""
        match node:
            case exp.Paren():
                self._meet(node.this, columns, slot, rng, found)
            case exp.And():
                self._meet(node.left, columns, slot, rng, found)
                self._meet(node.right, columns, slot, rng, found)
            case exp.Or():
                branches = list(node.flatten())
                self._meet(branches[slot % len(branches)], columns, slot, rng, found)
            case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.Like():
                for one, other in ((node.left, node.right), (node.right, node.left)):
                    self._set(one, [other], node, columns, rng, found)
            case exp.In() if node.expressions:
                self._set(node.this, node.expressions, node, columns, rng, found)
            case exp.Between():
                bounds = [node.args["low"], node.args["high"]]
                self._set(node.this, bounds, node, columns, rng, found)
            case exp.Is() if isinstance(node.this, exp.Column):
                name = self._column(node.this)
                if isinstance(node.expression, exp.Null) and name in columns:
                    found.setdefault(name, None)
            case _:
                pass

    def _set(
        self,
        side: exp.Expr,
        against: list[exp.Expr],
        node: exp.Expr,
        columns: Mapping[str, str],
        rng: random.Random,
        found: dict[str, str | None],
    ) -> None:
        named = self._columns(side)
        if len(named) != 1:
            return
        name = self._column(named[0])
        names = [n for n in (name, *sorted(self._equal[name])) if n in columns and n not in found]
        if not names:
            return
        if any(self._columns(other) for other in against):
            return
        given = [v for other in against if (v := self._fold(other)) is not None]
        if not given:
            return
        value = rng.choice(given[:3])
        if isinstance(node, exp.Between) and len(given) == 2:
            value = _between(given[0], given[1], rng)
        elif isinstance(node, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
            more = isinstance(node, (exp.GT, exp.GTE)) == (side is node.left)
            value = _beyond(value, more, rng)
        elif isinstance(node, exp.Like):
            value = value.replace("%", "").replace("_", "x")
        found |= dict.fromkeys(names, value)

    def _fold(self, constant: exp.Expr) -> str | None:
        """The value of an expression without columns."""
        if constant.find(exp.Query, exp.Star) is not None:
            return None
        if isinstance(constant, exp.Literal):
            return str(constant.this)
        text = constant.sql("duckdb")
        if text not in self._folded:
            (value,) = duckdb.execute(f"SELECT CAST({text} AS VARCHAR)").fetchall()[0]
            self._folded[text] = value
        return self._folded[text]


def _conditions(select: exp.Select) -> list[exp.Expr]:
    """Of a SELECT, its joins included, not of those inside."""
    found = [select.args["where"].this] if select.args.get("where") else []
    found += [on for join in select.args.get("joins") or [] if (on := join.args.get("on"))]
    return [part for node in found for part in _parts(node)]


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.And):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif node.find(*_COMPARISONS) is not None:
        yield node


def _between(low: str, high: str, rng: random.Random) -> str:
    try:
        first, last = _date(low), _date(high)
        return str(first + datetime.timedelta(rng.randint(0, (last - first).days)))
    except ValueError:
        pass
    try:
        return str(round(rng.uniform(float(low), float(high))))
    except ValueError:
        return low


def _beyond(value: str, more: bool, rng: random.Random) -> str:
    try:
        by = rng.randint(1, 3)
        return str(float(value) + (by if more else -by))
    except ValueError:
        return value
