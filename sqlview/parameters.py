"""Parameters in the text of a query: where they are, of what type, and the query for all values.

The query for the rows of a table of parameters is LATERAL to it. A recursive relation cannot be one
for each row: there each of its rows says in front what values it is for. What begins it is LATERAL
to the table, what goes on keeps the values of the row that it goes on from, and who reads it takes
the rows of his own values. A condition `column = :p` on a recursive relation goes to where it
begins, if the relation hands the column on as it is, so that only what the values reach is computed
(magic sets, of the case that needs no new relation).

Invariant: for one row of values, the rows are those of the text with the values in it.
Source: Shared Arrangements §6 (arguments of queries as data); Bancilhon et al. 1986, magic sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import SqlglotError

from planner import parse
from planner.errors import BindError, SqlViewError, UnsupportedError
from planner.names import folded
from planner.parse.recursion import mentions
from planner.parse.tokens import Token, lexemes, line_and_column
from sqlview.arguments import kind_of
from sqlview.catalog import Catalog
from sqlview.quoting import spark_name, spark_relation

_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.In)


#: What the table of parameters is called in a query, and a query beside it.
_VALUES, _QUERY = "`:`", "`:query`"


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a text, in the order in which it names them first, with each place of one:
    of its colon, and the name."""

    text: str
    places: tuple[tuple[int, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for _, name in self.places))


@dataclass(slots=True)
class Rewritten:
    """A text made of pieces of another: `spans` has each one's start here, its start there, and
    its length."""

    text: str = ""
    spans: list[tuple[int, int, int]] = field(default_factory=list)

    def put(self, new: str) -> None:
        self.text += new

    def keep(self, old: str, start: int, stop: int) -> None:
        self.spans.append((len(self.text), start, stop - start))
        self.text += old[start:stop]

    def origin(self, offset: int) -> int:
        """Where in the old text a place is; for what is new, where the piece before ends."""
        there = 0
        for here, start, length in self.spans:
            if here <= offset:
                there = start + min(offset - here, length)
        return there


def parameters_of(text: str) -> Parameters:
    """Find `:name` where it is a parameter.

    Raises: SqlSyntaxError for what is no query; SqlViewError if there is none.
    """
    parse.parse_query(text)
    found: list[tuple[int, str]] = []
    before: Token | None = None
    tokens = list(lexemes(text))
    for token, after in pairwise(tokens):
        follows = before is not None and (
            before.kind in ("word", "quoted", "string", "number") or before.word in (":", ")", "]")
        )
        glued = follows and before is not None and before.start + len(before.text) == token.start
        if token.word == ":" and after.kind == "word" and not glued:
            found.append((token.start, after.text))
        before = token
    if not found:
        raise SqlViewError(
            "the statement has no parameter",
            hint="Write one as :name, or use CREATE MATERIALIZED VIEW.",
        )
    return Parameters(text, tuple(found))


def checked_types(types: object) -> dict[str, str]:
    """Raises: TypeError unless it is a mapping of texts to texts, or None; ValueError for a text
    that is no type."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise TypeError(f"types is a dict of parameters' SQL types, not {kind_of(types)}")
    checked = {}
    for name, said in types.items():
        if not isinstance(name, str) or not isinstance(said, str):
            raise TypeError("types is a dict of parameters' SQL types, each a str by a str")
        try:
            checked[name] = exp.DataType.build(said, dialect="spark").sql("spark")
        except SqlglotError:
            raise ValueError(f"types has a text that is no SQL type: {said[:60]!r}") from None
    return checked


def types_of(parameters: Parameters, given: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """The type of each parameter: the one that is given, or that of the column with which it is
    compared, or of the CAST that it is in.

    Raises: BindError if that does not tell of one; SqlViewError if one is given that is not there.
    """
    for name in given:
        if name not in parameters.names:
            raise SqlViewError(
                f"there is no parameter :{name}",
                detail=f"There are {listed(parameters.names)}.",
            )
    tree = parse.parse_query(parameters.text).tree
    columns = _first_columns(parameters.text)
    found: dict[str, set[str]] = {name: set() for name in parameters.names}
    for node in tree.find_all(exp.Placeholder):
        found.setdefault(node.name, set()).update(_types_beside(node, tree, catalog, columns))
    types = {}
    for name, some in found.items():
        if name not in given and len(some) != 1:
            place = next(at for at, n in parameters.places if n == name)
            line, column = line_and_column(parameters.text, place)
            detail = f"It is compared with {listed(sorted(some))}." if some else None
            raise BindError(
                f"the type of :{name} is not known",
                detail=detail or "It is compared with no column by itself.",
                hint=f'Say it: prepare(…, types={{"{name}": "BIGINT"}}), or write CAST(:{name} '
                "AS BIGINT).",
                line=line,
                column=column,
            )
        types[name] = given.get(name) or next(iter(some))
    return types


def _types_beside(
    node: exp.Placeholder, tree: exp.Expr, catalog: Catalog, columns: Mapping[str, exp.Column]
) -> set[str]:
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return {parent.to.sql("spark")}
    if not isinstance(parent, _COMPARED):
        return set()
    types: set[str] = set()
    for said in parent.iter_expressions():
        if not isinstance(said, exp.Column):
            continue
        column = columns.get(folded(said.name), said)
        for table in tree.find_all(exp.Table):
            entry = catalog.find(table.name)
            if entry is None or (
                column.table and folded(column.table) != folded(table.alias_or_name)
            ):
                continue
            fields = (f for f in entry.schema if folded(f.name) == folded(column.name))
            types.update(str(field.type) for field in fields)
    return types


def _first_columns(text: str) -> dict[str, exp.Column]:
    """Of columns of recursive relations, those that they begin with, by folded name."""
    found = {}
    for relation in _parts(text)[0]:
        start, stop = relation.branches[0]
        begins = parse.parse_query(text[start:stop]).tree
        selected = begins.selects if isinstance(begins, exp.Query) else []
        for name, made in zip(relation.columns, selected, strict=False):
            column = made.unalias()
            if isinstance(column, exp.Column):
                found[folded(name)] = column
    return found


def listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f":{n}" if isinstance(names, tuple) else n for n in names)


@dataclass(frozen=True, slots=True)
class _Relation:
    """One of WITH RECURSIVE: its `columns` where it names them, from `start` on; the spans of its
    body's branches."""

    name: str
    start: int
    columns: tuple[str, ...]
    columns_start: int
    body: tuple[int, int]
    branches: tuple[tuple[int, int], ...]


def for_all(parameters: Parameters, table: str) -> Rewritten:
    """The query for every row of the table of parameters, whose columns come first.

    Raises: UnsupportedError where a recursive relation cannot be made for values.
    """
    made = Rewritten()
    text = parameters.text
    relations, final = _parts(text)
    bound = _bound(parameters, relations, final)
    given = _for_values(parameters, relations, bound[0])
    at = 0
    for relation in given:
        if not relation.columns:
            raise _unsupported(
                parameters, relation.start, f'parameters in "{relation.name}"',
                "It does not name its columns, to which those of the parameters would be added.",
                f"Name them: {relation.name}(…) AS (…).",
            )  # fmt: skip
        made.keep(text, at, relation.columns_start)
        made.put("".join(f"{spark_name(f':{n}')}, " for n in parameters.names))
        at = relation.columns_start
        for start, stop in relation.branches:
            made.keep(text, at, start)
            mention = [(m, other) for other in given for m in _read(text, (start, stop), other)]
            if mention:
                _go_on(made, parameters, (start, stop), mention)
            else:
                where = bound[1] if relation.name == bound[0] else ""
                _begin(made, parameters, (start, stop), table, relation.columns, where)
            at = stop
    made.keep(text, at, final)
    columns = ", ".join(f"{_VALUES}.{spark_name(f':{n}')}" for n in parameters.names)
    made.put(f"SELECT {columns}, {_QUERY}.* FROM {spark_relation(table)} AS {_VALUES}, LATERAL (\n")
    mention = [(m, other) for other in given for m in _read(text, (final, len(text)), other)]
    mention.sort(key=lambda pair: int(pair[0].this.meta["start"]))
    at = final
    for node, relation in mention:
        start, stop = final + int(node.this.meta["start"]), final + int(node.this.meta["end"]) + 1
        _keep(made, parameters, at, start, _VALUES)
        listed = ", ".join(map(spark_name, relation.columns))
        same = " AND ".join(
            f"{spark_name(relation.name)}.{spark_name(f':{n}')} = {_VALUES}.{spark_name(f':{n}')}"
            for n in parameters.names
        )
        made.put(f"(SELECT {listed} FROM {spark_name(relation.name)} WHERE {same})")
        if not node.alias:
            made.put(f" AS {spark_name(node.name)}")
        at = stop
    _keep(made, parameters, at, len(text), _VALUES)
    made.put(f"\n) AS {_QUERY}")
    return made


def _for_values(parameters: Parameters, relations: list[_Relation], bound: str) -> list[_Relation]:
    """The relations that are made for values: that name parameters, or are bound, or read one."""
    found = {bound} | {
        r.name for r in relations for p, _ in parameters.places if r.body[0] <= p < r.body[1]
    }
    given: list[_Relation] = []
    while len(given) < len(found - {""}):
        given = [r for r in relations if r.name in found]
        found |= {
            r.name for r in relations if any(_read(parameters.text, r.body, g) for g in given)
        }
    return given


def _begin(
    made: Rewritten,
    parameters: Parameters,
    span: tuple[int, int],
    table: str,
    columns: tuple[str, ...],
    where: str,
) -> None:
    """A branch that reads nothing made for values, for all of them."""
    values = ", ".join(f"{_VALUES}.{spark_name(f':{n}')}" for n in parameters.names)
    made.put(f"SELECT {values}, {_QUERY}.* FROM {spark_relation(table)} AS {_VALUES}, LATERAL (\n")
    _keep(made, parameters, *span, _VALUES)
    made.put(f"\n) AS {_QUERY}({', '.join(map(spark_name, columns))}){where} ")


def _go_on(
    made: Rewritten,
    parameters: Parameters,
    span: tuple[int, int],
    mention: list[tuple[exp.Table, _Relation]],
) -> None:
    """A branch that reads what is made for values, for the values of the rows that it reads.

    Raises: UnsupportedError unless it is one SELECT over one of them, without groups.
    """
    text = parameters.text[span[0] : span[1]]
    (node, relation), *more = mention
    tree = parse.parse_query(text).tree
    reason = ""
    joins = list(tree.find_all(exp.Join))
    own = node.find_ancestor(exp.Join, exp.From)
    if more:
        reason = "It reads what is made for parameters several times."
    elif not isinstance(tree, exp.Select) or node.find_ancestor(exp.Select) is not node.root():
        reason = "It reads what is made for parameters inside of another query."
    elif any(tree.find(kind) for kind in (exp.AggFunc, exp.Group, exp.Window, exp.Limit)):
        reason = "It has an aggregate, a window or a LIMIT, which would be over all values."
    elif tree.find(exp.Star):
        reason = "It says *, which would take the parameters, too."
    elif any(j.side in ("RIGHT", "FULL") for j in joins) or (
        isinstance(own, exp.Join) and (own.side or own.kind in ("SEMI", "ANTI"))
    ):
        reason = "It reads what is made for parameters where an outer join pads it with NULL."
    if reason:
        raise _unsupported(
            parameters, span[0] + int(node.this.meta["start"]),
            f'parameters in "{relation.name}", which is recursive', reason,
            "Leave the parameters to the query behind WITH: the recursion is then for all values.",
        )  # fmt: skip
    tokens = [t for t in lexemes(text) if t.kind not in ("space", "comment")]
    behind = tokens[1] if tokens[1].word in ("DISTINCT", "ALL") else tokens[0]
    stop = span[0] + behind.start + len(behind.text)
    made.keep(parameters.text, span[0], stop)
    alias = spark_name(node.alias_or_name)
    made.put("".join(f" {alias}.{spark_name(f':{n}')}," for n in parameters.names))
    _keep(made, parameters, stop, span[1], alias)


def _keep(made: Rewritten, parameters: Parameters, start: int, stop: int, of: str) -> None:
    """A part of the text, with each parameter as the column of `of`."""
    for place, name in parameters.places:
        if start <= place < stop:
            made.keep(parameters.text, start, place)
            made.put(f"{of}.{spark_name(f':{name}')}")
            start = place + 1 + len(name)
    made.keep(parameters.text, start, stop)


def _read(text: str, span: tuple[int, int], relation: _Relation) -> list[exp.Table]:
    """Where a query reads the relation; places count in its own text."""
    return mentions(parse.parse_query(text[span[0] : span[1]]).tree, relation.name)


def _parts(text: str) -> tuple[list[_Relation], int]:
    """The relations of the WITH RECURSIVE in front, and where the query behind it begins."""
    tokens = [t for t in lexemes(text) if t.kind not in ("space", "comment")]
    if [t.word for t in tokens[:2]] != ["WITH", "RECURSIVE"]:
        return [], 0
    found: list[_Relation] = []
    at = 2
    while True:
        name = tokens[at]
        columns: tuple[str, ...] = ()
        first = name.start
        if tokens[at + 1].word == "(":
            first = tokens[at + 1].start + 1
            stop = _closing(tokens, at + 1)
            columns = tuple(_name(t) for t in tokens[at + 2 : stop] if t.word != ",")
            at = stop
        while tokens[at].word != "(" or tokens[at - 1].word != "AS":
            at += 1
        stop = _closing(tokens, at)
        span = tokens[at].start + 1, tokens[stop].start
        branches = _branches(tokens[at + 1 : stop], span)
        found.append(_Relation(_name(name), name.start, columns, first, span, branches))
        at = stop + 1
        if tokens[at].word != ",":
            return found, tokens[at].start
        at += 1


def _closing(tokens: list[Token], at: int) -> int:
    depth = 0
    while True:
        depth += (tokens[at].word == "(") - (tokens[at].word == ")")
        if depth == 0:
            return at
        at += 1


def _branches(tokens: list[Token], span: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """The spans between UNIONs of a body; one where other set operations stand between."""
    depth, start, found = 0, span[0], []
    for token, after in pairwise(tokens):
        depth += (token.word in ("(", "[")) - (token.word in (")", "]"))
        if depth == 0 and token.word in ("INTERSECT", "EXCEPT", "MINUS"):
            return (span,)
        if depth == 0 and token.word == "UNION":
            found.append((start, token.start))
            last = after if after.word in ("ALL", "DISTINCT") else token
            start = last.start + len(last.text)
    return (*found, (start, span[1]))


def _name(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


def _bound(parameters: Parameters, relations: list[_Relation], final: int) -> tuple[str, str]:
    """The recursive relation that the query behind reads for values of columns which it hands on
    from its beginning, and the condition on these; "" and "" if there is none."""
    text = parameters.text
    tree = parse.parse_query(text[final:]).tree
    where = tree.args.get("where")
    if len(relations) != 1 or not isinstance(tree, exp.Select) or where is None:
        return "", ""
    (relation,) = relations
    read = mentions(tree, relation.name)
    if len(read) != 1 or read[0].find_ancestor(exp.Select) is not tree or tree.args.get("joins"):
        return "", ""
    conditions = []
    for each in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        pair = list(each.iter_expressions()) if isinstance(each, exp.EQ) else []
        columns = [e for e in pair if isinstance(e, exp.Column)]
        values = [e for e in pair if isinstance(e, exp.Placeholder)]
        if len(columns) == 1 and len(values) == 1:
            place = _place(relation.columns, columns[0].name)
            if place is not None and _hands_on(text, relation, place):
                column = f"{_QUERY}.{spark_name(relation.columns[place])}"
                conditions.append(f"{column} = {_VALUES}.{spark_name(f':{values[0].name}')}")
    return (relation.name, f" WHERE {' AND '.join(conditions)}") if conditions else ("", "")


def _place(columns: tuple[str, ...], name: str) -> int | None:
    names = [folded(c) for c in columns]
    return names.index(folded(name)) if folded(name) in names else None


def _hands_on(text: str, relation: _Relation, place: int) -> bool:
    """Whether every branch that reads the relation takes the column from it as it is."""
    begins = False
    for start, stop in relation.branches:
        tree = parse.parse_query(text[start:stop]).tree
        read = mentions(tree, relation.name)
        if not read:
            begins = True
            continue
        if not isinstance(tree, exp.Select) or len(read) != 1 or len(tree.expressions) <= place:
            return False
        made = tree.expressions[place].unalias()
        if not isinstance(made, exp.Column) or _place(relation.columns, made.name) != place:
            return False
        if folded(made.table) != folded(read[0].alias_or_name):
            return False
        if any(tree.find(k) for k in (exp.AggFunc, exp.Group, exp.Window, exp.Limit, exp.Star)):
            return False
        if any(j.side or j.kind in ("SEMI", "ANTI") for j in tree.find_all(exp.Join)):
            return False
        if read[0].find_ancestor(exp.Select) is not tree:
            return False
    return begins


def _unsupported(
    parameters: Parameters, place: int, what: str, detail: str, hint: str
) -> UnsupportedError:
    line, column = line_and_column(parameters.text, place)
    return UnsupportedError(
        f"cannot prepare {what}", detail=detail, hint=hint, line=line, column=column
    )
