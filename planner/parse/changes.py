"""INSERT, UPDATE, DELETE, MERGE: which rows of a table change, and how.

The clauses are read by a cursor; each expression and query in them goes to sqlglot by itself, at
its place in the text. What is put together of them (planner.bind.changes) is a query whose parts
know where they were written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from sqlglot import exp

from planner.names import folded, short_name
from planner.parse.queries import Query, query_at
from planner.parse.tokens import Cursor, Token, unquote

#: Of a NULL for which the text has DEFAULT.
DEFAULT = "default"
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


@dataclass(frozen=True, slots=True)
class Insert:
    """`columns`: those that the query gives, in its order; None: all, in the table's, or with
    `by_name` those that it names."""

    name: str
    columns: tuple[str, ...] | None
    by_name: bool
    query: Query


@dataclass(frozen=True, slots=True)
class Target:
    """The table that changes; `tree` as FROM has it, and the name that its columns go by."""

    name: str
    alias: str
    tree: exp.Expression = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`value` None: DEFAULT. `at`: where the column is named."""

    column: str
    at: int
    value: exp.Expression | None = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Clause:
    """What happens to rows that are "matched", "not matched" or "not matched by source", and meet
    the condition: "update", "delete" or "insert". `assignments` None: all columns, from those of
    the same name."""

    when: str
    action: str
    condition: exp.Expression | None = field(compare=False, repr=False)
    assignments: tuple[Assignment, ...] | None
    at: int


@dataclass(frozen=True, slots=True)
class Update:
    target: Target
    assignments: tuple[Assignment, ...]
    condition: exp.Expression | None = field(compare=False, repr=False)
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delete:
    target: Target
    condition: exp.Expression | None = field(compare=False, repr=False)
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Merge:
    """`source` as FROM has it; `alias`: the name that its columns go by."""

    target: Target
    source: exp.Expression = field(compare=False, repr=False)
    alias: str
    on: exp.Expression = field(compare=False, repr=False)
    clauses: tuple[Clause, ...]
    text: str = field(repr=False)


def insert(cursor: Cursor) -> Insert:
    """INSERT INTO [TABLE] name [(columns) | BY NAME] query."""
    start = cursor.expect("INSERT")
    if cursor.accept("OVERWRITE"):
        cursor.fail_at(
            start,
            "INSERT OVERWRITE is not among the statements",
            hint="Write DELETE FROM and INSERT INTO, or MERGE INTO … WHEN NOT MATCHED BY SOURCE "
            "THEN DELETE.",
        )
    cursor.expect("INTO")
    cursor.accept("TABLE")
    name = cursor.relation("table")
    if cursor.peek().word in ("PARTITION", "REPLACE", "IF"):
        cursor.fail(hint="Write INSERT INTO name [(column, …) | BY NAME] query.")
    by_name = cursor.accept("BY", "NAME")
    columns = None
    ahead = cursor.ahead()
    if cursor.peek().word == "(" and ahead is not None and ahead.word not in _QUERY_STARTS:
        columns = cursor.name_list("column")
        if by_name:
            cursor.fail_at(start, "INSERT has either BY NAME or a list of columns")
    if cursor.peek().word not in _QUERY_STARTS:
        cursor.fail(detail="Expected a query, as VALUES (…) or SELECT ….")
    return Insert(name, columns, by_name, _inserted(cursor))


def insert_after_with(cursor: Cursor) -> Insert | None:
    """WITH … INSERT INTO name query: as INSERT INTO name WITH … query; None for another query."""
    depth = 0
    for token in cursor.rest():
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0 and token.word == "INSERT":
            break
    else:
        return None
    text, start = cursor.text, token.start
    blank = re.sub(r"\S", " ", text[:start])
    plain = insert(Cursor(blank + text[start:], cursor.schema))
    begins = text.rfind(plain.query.text)
    whole = text[:start] + re.sub(r"\S", " ", text[start:begins]) + text[begins:]
    return replace(plain, query=_inserted(Cursor(whole, cursor.schema)))


def _inserted(cursor: Cursor) -> Query:
    """The query, in which NULLs that are marked stand for DEFAULT."""
    if cursor.peek().word == "TABLE":  # TABLE t is FROM t
        start = cursor.peek().start
        text = cursor.text[:start] + "FROM " + cursor.text[start + len("TABLE") :]
        cursor = _from(text, start, cursor.schema)
    query = query_at(cursor)
    tree = query.tree
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    rows = tree.expressions if isinstance(tree, exp.Values) else [tree]
    for row in rows:
        if isinstance(row, (exp.Tuple, exp.Select)):
            given = [_marked() if _is_default(e) else e for e in row.expressions]
            row.set("expressions", given)
    return query


def _marked() -> exp.Expression:
    node = exp.Null()
    node.meta[DEFAULT] = True
    return node


def _is_default(node: exp.Expression) -> bool:
    if isinstance(node, exp.Column) and node.table == "":
        node = node.this
    return isinstance(node, (exp.Var, exp.Identifier)) and node.name.upper() == "DEFAULT"


def update(cursor: Cursor) -> Update:
    """UPDATE name [[AS] alias] SET column = expression, … [WHERE condition]."""
    cursor.expect("UPDATE")
    target = _target(cursor, ("SET",))
    cursor.expect("SET")
    assignments = _assignments(cursor, target, ("WHERE",))
    return Update(target, assignments, _where(cursor), cursor.text)


def delete(cursor: Cursor) -> Delete:
    """DELETE FROM name [[AS] alias] [WHERE condition]."""
    cursor.expect("DELETE", "FROM")
    target = _target(cursor, ("WHERE",))
    return Delete(target, _where(cursor), cursor.text)


def truncate(cursor: Cursor) -> Delete:
    """TRUNCATE TABLE name: DELETE FROM name."""
    cursor.expect("TRUNCATE", "TABLE")
    target = _target(cursor, ())
    cursor.end(hint="TRUNCATE TABLE takes a name, and nothing else.")
    return Delete(target, None, cursor.text)


def merge(cursor: Cursor) -> Merge:
    """MERGE INTO name [[AS] alias] USING source [[AS] alias] ON condition WHEN …."""
    cursor.expect("MERGE")
    if cursor.peek().word == "WITH":
        cursor.fail(hint="Columns are added by ALTER TABLE … ADD COLUMN, not by a MERGE.")
    cursor.expect("INTO")
    target = _target(cursor, ("USING",))
    cursor.expect("USING")
    here = cursor.peek()
    source, alias = _source(cursor)
    if folded(alias) == folded(target.alias):
        cursor.fail_at(here, f'both sides of the MERGE are called "{alias}"', hint="Use an alias.")
    cursor.expect("ON")
    on = _expression(cursor, ("WHEN",))
    clauses: list[Clause] = []
    while cursor.peek().word == "WHEN":
        here = cursor.peek()
        clause = _clause(cursor, target)
        if any(c.when == clause.when and c.condition is None for c in clauses):
            said = clause.when.upper()
            cursor.fail_at(here, f"WHEN {said} follows one that takes all rows which are left")
        clauses.append(clause)
    if not clauses:
        cursor.fail(detail="Expected WHEN.")
    cursor.end()
    return Merge(target, source, alias, on, tuple(clauses), cursor.text)


def _clause(cursor: Cursor, target: Target) -> Clause:
    at = cursor.expect("WHEN").start
    if cursor.accept("MATCHED"):
        when = "matched"
    else:
        cursor.expect("NOT", "MATCHED")
        when = "not matched"
        if cursor.accept("BY", "SOURCE"):
            when = "not matched by source"
        else:
            cursor.accept("BY", "TARGET")
    condition = _expression(cursor, ("THEN",)) if cursor.accept("AND") else None
    cursor.expect("THEN")
    if when == "not matched":
        cursor.expect("INSERT")
        return Clause(when, "insert", condition, _values(cursor), at)
    if cursor.accept("DELETE"):
        return Clause(when, "delete", condition, (), at)
    cursor.expect("UPDATE", "SET")
    star = cursor.peek()
    if cursor.accept("*"):
        if when == "not matched by source":
            cursor.fail_at(star, "there is no row of the source that * could stand for")
        return Clause(when, "update", condition, None, at)
    return Clause(when, "update", condition, _assignments(cursor, target, ("WHEN",)), at)


def _values(cursor: Cursor) -> tuple[Assignment, ...] | None:
    """What INSERT of a MERGE says: * or (column, …) VALUES (expression, …)."""
    if cursor.accept("*"):
        return None
    cursor.expect("(")
    names = [_column(cursor, None)]
    while cursor.accept(","):
        names.append(_column(cursor, None))
    cursor.expect(")")
    cursor.expect("VALUES")
    opening = cursor.expect("(")
    values = [_value(cursor, (",", ")"))]
    while cursor.accept(","):
        values.append(_value(cursor, (",", ")")))
    cursor.expect(")")
    if len(values) != len(names):
        cursor.fail_at(opening, f"there are {len(values)} values for {len(names)} columns")
    return tuple(Assignment(n, at, v) for (n, at), v in zip(names, values, strict=True))


def _assignments(cursor: Cursor, target: Target, stops: tuple[str, ...]) -> tuple[Assignment, ...]:
    found: list[Assignment] = []
    while True:
        name, at = _column(cursor, target)
        cursor.expect("=")
        found.append(Assignment(name, at, _value(cursor, (",", *stops))))
        if not cursor.accept(","):
            return tuple(found)


def _column(cursor: Cursor, target: Target | None) -> tuple[str, int]:
    """A column of the target, alone or behind its name; and its place."""
    first = _name(cursor, "column")
    if target is not None and cursor.accept("."):
        if folded(unquote_word(first)) != folded(target.alias):
            hint = f'Only columns of "{target.alias}" are assigned.'
            cursor.fail_at(first, f'"{unquote_word(first)}" is not what changes', hint=hint)
        return unquote_word(_name(cursor, "column")), first.start
    return unquote_word(first), first.start


def _name(cursor: Cursor, what: str) -> Token:
    if cursor.peek().kind not in ("word", "quoted"):
        cursor.fail(detail=f"Expected the name of a {what}.")
    return cursor.next()


def unquote_word(token: Token) -> str:
    return unquote(token.text) if token.kind == "quoted" else token.text


def _value(cursor: Cursor, stops: tuple[str, ...]) -> exp.Expression | None:
    ahead = cursor.ahead()
    if cursor.peek().word == "DEFAULT" and (ahead is None or ahead.word in stops):
        cursor.next()
        return None
    return _expression(cursor, stops)


def _where(cursor: Cursor) -> exp.Expression | None:
    condition = _expression(cursor, ()) if cursor.accept("WHERE") else None
    cursor.end()
    return condition


def _target(cursor: Cursor, stops: tuple[str, ...]) -> Target:
    start = cursor.peek().start
    name = cursor.relation("table")
    alias = short_name(name)
    if cursor.accept("AS") or cursor.peek().kind in ("word", "quoted"):
        if cursor.peek().word not in stops:
            alias = unquote_word(_name(cursor, "table"))
    return Target(name, alias, _relation(cursor, start))


def _source(cursor: Cursor) -> tuple[exp.Expression, str]:
    """What FROM would have, up to ON; and its name."""
    start = cursor.peek()
    _skip(cursor, ("ON",))
    tree = _relation(cursor, start.start)
    alias = tree.alias_or_name
    if not isinstance(tree, (exp.Table, exp.Subquery, exp.Values)) or tree.args.get("joins"):
        cursor.fail_at(start, "the source of MERGE is a table, a view or a query in parentheses")
    if not alias:
        cursor.fail_at(start, "the source of MERGE needs an alias", hint="Write (query) AS name.")
    return tree, alias


def _relation(cursor: Cursor, start: int) -> exp.Expression:
    """The text from `start` up to the cursor, as FROM has it."""
    tree = _part(cursor, "FROM ", start)
    if isinstance(tree, exp.Select) and not tree.args.get("joins"):
        relation = tree.args["from_"].this
        assert isinstance(relation, exp.Expression)
        return relation
    return tree


def _expression(cursor: Cursor, stops: tuple[str, ...]) -> exp.Expression:
    """The expression that comes next, up to one of the words, or to the end."""
    first = cursor.peek()
    _skip(cursor, stops)
    if cursor.peek().start == first.start:
        cursor.fail(detail="Expected an expression.")
    tree = _part(cursor, "SELECT ", first.start)
    set_args = {k for k, v in tree.args.items() if v}
    if not isinstance(tree, exp.Select) or set_args != {"expressions"}:
        cursor.fail_at(first, "this is not an expression")
    found = tree.expressions
    if len(found) != 1 or isinstance(found[0], (exp.Alias, exp.Star)):
        cursor.fail_at(first, "this is not an expression")
    expression = found[0]
    assert isinstance(expression, exp.Expression)
    return expression


def _skip(cursor: Cursor, stops: tuple[str, ...]) -> None:
    """Go on to one of the words that is in no brackets and no CASE, or to the end."""
    depth = 0
    while cursor.peek().kind != "end":
        word = cursor.peek().word
        if depth == 0 and word in stops:
            return
        depth += (word in ("(", "[", "CASE")) - (word in (")", "]", "END"))
        if depth < 0:
            return
        cursor.next()


def _part(cursor: Cursor, keyword: str, start: int) -> exp.Expression:
    """The text from `start` up to the cursor behind a keyword, at its place."""
    before = re.sub(r"\S", " ", cursor.text[:start])
    room = re.search(rf"[^\n]{{{len(keyword)}}}", before)
    at = 0 if room is None else room.start()
    text = before[:at] + keyword + before[at + len(keyword) :] + cursor.text[start : _end(cursor)]
    return query_at(Cursor(text, cursor.schema)).tree


def _end(cursor: Cursor) -> int:
    return cursor.peek().start


def _from(text: str, start: int, schema: str) -> Cursor:
    """A cursor over the whole text, at the token that begins at `start`."""
    cursor = Cursor(text, schema)
    while cursor.peek().start < start:
        cursor.next()
    return cursor
