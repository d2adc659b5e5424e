"""XPath 1.0, as the XPATH functions take it: a text to an expression whose kind is known.

    OrExpr … UnaryExpr, '|', filters and location paths, as in the recommendation's grammar

An XPath without variables tells of each part whether it is nodes, a number, a text or a truth. So
what Java's processor would fail on in each row (the number of a text's nodes, the union with a
number) is refused here, and so is what it reads otherwise than the recommendation says, or by what
only a DTD or a prefix's declaration tells: `operators.scalar.xpaths` then has one meaning to
follow.

Source: XPath 1.0 §2, §3, §4; Java `com.sun.org.apache.xpath.internal`: its compiler (Lexer,
XPathParser) and axes (WalkerFactory, DescendantIterator, UnionPathIterator).
Deviations: variables, prefixes, `id`, `lang` and the axis `namespace` are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import NoReturn, TypeAlias


class Kind(Enum):
    NODES = auto()
    NUMBER = auto()
    TEXT = auto()
    TRUTH = auto()
    ANY = auto()  #: of an argument alone: whatever it is


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Operation:
    """`operator`: or and = != < <= > >= + - * div mod."""

    operator: str
    left: XPath
    right: XPath


@dataclass(frozen=True, slots=True)
class Minus:
    value: XPath


@dataclass(frozen=True, slots=True)
class Function:
    """A call of one of FUNCTIONS; where it takes a node, and none was written, of the context."""

    name: str
    args: tuple[XPath, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """In parentheses."""

    value: XPath


@dataclass(frozen=True, slots=True)
class Union:
    parts: tuple[XPath, ...]


@dataclass(frozen=True, slots=True)
class Test:
    """Which nodes of an axis: all those of a `type` (node, text, comment, processing-instruction),
    or, where that is None, of the axis' own type; `name`: those of that name (None: of any)."""

    type: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Step:
    axis: str
    test: Test
    predicates: tuple[XPath, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """`start`: nodes, filtered by `predicates`; None: the root if `absolute`, else the context."""

    absolute: bool
    start: XPath | None
    predicates: tuple[XPath, ...]
    steps: tuple[Step, ...]


XPath: TypeAlias = Number | Text | Operation | Minus | Function | Group | Union | Path

_K = Kind
#: name -> (kinds of the arguments, how many there are at least, kind). Further arguments of
#: `concat` are of the kind of its last.
FUNCTIONS: dict[str, tuple[tuple[Kind, ...], int, Kind]] = {
    "last": ((), 0, _K.NUMBER),
    "position": ((), 0, _K.NUMBER),
    "count": ((_K.NODES,), 1, _K.NUMBER),
    "local-name": ((_K.NODES,), 0, _K.TEXT),
    "namespace-uri": ((_K.NODES,), 0, _K.TEXT),
    "name": ((_K.NODES,), 0, _K.TEXT),
    "string": ((_K.ANY,), 0, _K.TEXT),
    "concat": ((_K.TEXT, _K.TEXT), 2, _K.TEXT),
    "starts-with": ((_K.TEXT, _K.TEXT), 2, _K.TRUTH),
    "contains": ((_K.TEXT, _K.TEXT), 2, _K.TRUTH),
    "substring-before": ((_K.TEXT, _K.TEXT), 2, _K.TEXT),
    "substring-after": ((_K.TEXT, _K.TEXT), 2, _K.TEXT),
    "substring": ((_K.TEXT, _K.NUMBER, _K.NUMBER), 2, _K.TEXT),
    "string-length": ((_K.TEXT,), 0, _K.NUMBER),
    "normalize-space": ((_K.TEXT,), 0, _K.TEXT),
    "translate": ((_K.TEXT, _K.TEXT, _K.TEXT), 3, _K.TEXT),
    "boolean": ((_K.ANY,), 1, _K.TRUTH),
    "not": ((_K.TRUTH,), 1, _K.TRUTH),
    "true": ((), 0, _K.TRUTH),
    "false": ((), 0, _K.TRUTH),
    "number": ((_K.ANY,), 0, _K.NUMBER),
    "sum": ((_K.NODES,), 1, _K.NUMBER),
    "floor": ((_K.NUMBER,), 1, _K.NUMBER),
    "ceiling": ((_K.NUMBER,), 1, _K.NUMBER),
    "round": ((_K.NUMBER,), 1, _K.NUMBER),
}
AXES = frozenset(
    "ancestor ancestor-or-self attribute child descendant descendant-or-self following "
    "following-sibling parent preceding preceding-sibling self".split()
)
_NODE_TYPES = frozenset(("node", "text", "comment", "processing-instruction"))
#: From the loosest to the tightest; those of a level go from left to right.
_LEVELS = (("or",), ("and",), ("=", "!="), ("<=", "<", ">=", ">"), ("+", "-"), ("*", "div", "mod"))
_TRUTHS = frozenset(("or", "and", "=", "!=", "<=", "<", ">=", ">"))
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<text>"[^"]*"|'[^']*')
      | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
      | (?P<name>[^\W\d][\w.\-]*)
      | (?P<sign>::|//|\.\.|!=|<=|>=|[()\[\]@,.|/=<>+*\-:$])
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"[ \t\r\n]*\Z")
#: What Java's processor has at most.
_MOST_OPERATORS = 100
_MOST_GROUPS = 10
#: Pairs of parentheses and brackets in each other.
_DEEPEST = 20


def kind_of(expr: XPath) -> Kind:
    match expr:
        case Number() | Minus():
            return Kind.NUMBER
        case Text():
            return Kind.TEXT
        case Operation():
            return Kind.TRUTH if expr.operator in _TRUTHS else Kind.NUMBER
        case Function():
            return FUNCTIONS[expr.name][2]
        case Group():
            return kind_of(expr.value)
        case Union() | Path():
            return Kind.NODES


def parse(path: str) -> XPath:
    """The expression. Raises: ValueError, whose text goes behind "XPATH by a path that …"."""
    parser = _Parser(_tokens(path))
    found = parser.level(0)
    if parser.at < len(parser.tokens) - 1:
        parser.unexpected()
    _check(found, _begins_with_a_path(found))
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    type: str
    text: str


_END = _Token("end", "")


def _tokens(path: str) -> list[_Token]:
    out: list[_Token] = []
    at = groups = depth = 0
    while not _BLANK.match(path, at):
        found = _TOKEN.match(path, at)
        if found is None:
            raise ValueError(f"has {path[at:].lstrip()[:10]!r}, which is not read here")
        name = found.lastgroup or ""
        token = _Token(name, found[name])
        after = path[found.end() : found.end() + 1]
        if name == "number" and (after.isalnum() or after in ("_", ".")):
            raise ValueError(f"has a number that ends in '{after}'")
        if name == "number" and after == "-" and "." in token.text:
            raise ValueError("has a number with '-' right behind it, which Java takes for its part")
        groups += token.text == "(" and not (out and out[-1].type == "name")
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth > _DEEPEST:
            raise ValueError(f"has more than {_DEEPEST} parentheses and brackets in each other")
        out.append(token)
        at = found.end()
    if sum(t.type == "sign" for t in out) > _MOST_OPERATORS or groups > _MOST_GROUPS:
        raise ValueError(
            f"has more than {_MOST_OPERATORS} signs, or {_MOST_GROUPS} pairs of parentheses"
        )
    if not out:
        raise ValueError("is blank")
    return [*out, _END]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def is_next(self, text: str, ahead: int = 0) -> bool:
        """Whether the token, or one behind it, is this sign or name."""
        place = self.at + ahead
        if place >= len(self.tokens):
            return False
        token = self.tokens[place]
        return token.text == text and token.type in ("sign", "name")

    def accept(self, text: str) -> bool:
        found = self.is_next(text)
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.unexpected()

    def unexpected(self) -> NoReturn:
        if self.token is _END:
            raise ValueError("ends too early")
        raise ValueError(f"has '{self.token.text}' where it does not belong")

    # --- operators -----------------------------------------------------------------------------

    def level(self, number: int) -> XPath:
        """An expression of operators of this level and tighter ones."""
        if number == len(_LEVELS):
            return self.unary()
        left = self.level(number + 1)
        while self.is_operator(_LEVELS[number]):
            operator = self.token.text
            if _ends_in_union(left):
                raise ValueError(
                    f"has '|' left of '{operator}', whose other side Java takes for a part of it"
                )
            self.at += 1
            left = Operation(operator, left, self.level(number + 1))
        return left

    def is_operator(self, operators: tuple[str, ...]) -> bool:
        return self.token.text in operators and self.token.type in ("sign", "name")

    def unary(self) -> XPath:
        if self.accept("-"):
            return Minus(self.union())
        return self.union()

    def union(self) -> XPath:
        parts = [self.path()]
        while self.accept("|"):
            parts.append(self.path())
        if len(parts) == 1:
            return parts[0]
        for part in parts:
            self.needs(part, Kind.NODES, "|")
        return Union(tuple(parts))

    def needs(self, expr: XPath, kind: Kind, where: str) -> None:
        if kind is Kind.NODES and kind_of(expr) is not kind:
            raise ValueError(f"needs nodes at '{where}', and has a value")

    # --- paths ---------------------------------------------------------------------------------

    def path(self) -> XPath:
        start = self.primary()
        if start is None:
            return self.location()
        predicates = self.predicates()
        steps = self.steps_behind()
        if not predicates and not steps:
            return start
        self.needs(start, Kind.NODES, "[" if predicates else "/")
        return Path(False, start, predicates, steps)

    def primary(self) -> XPath | None:
        """A literal, a group or a call; None where a location path begins."""
        token = self.token
        if token.type in ("text", "number"):
            self.at += 1
            return Text(token.text[1:-1]) if token.type == "text" else Number(float(token.text))
        if self.accept("("):
            inner = self.level(0)
            self.expect(")")
            return Group(inner)
        if token.text == "$":
            raise ValueError("has a variable, and variables have no value here")
        if token.type == "name" and self.is_next("(", 1) and token.text not in _NODE_TYPES:
            return self.call()
        return None

    def call(self) -> XPath:
        name = self.token.text
        if name not in FUNCTIONS:
            raise ValueError(f"calls {name}(), which is not among the functions of paths")
        self.at += 2
        args: list[XPath] = []
        while not self.accept(")"):
            if args:
                self.expect(",")
            args.append(self.level(0))
        kinds, least, _ = FUNCTIONS[name]
        if not least <= len(args) <= len(kinds) and not (name == "concat" and len(args) > least):
            raise ValueError(f"calls {name}() with {len(args)} arguments")
        for arg, kind in zip(args, kinds, strict=False):
            self.needs(arg, kind, f"{name}(")
        return Function(name, tuple(args))

    def location(self) -> Path:
        if self.is_next("//"):
            return Path(True, None, (), self.steps_behind())
        if self.accept("/"):
            return Path(True, None, (), self.steps() if self.begins_step() else ())
        return Path(False, None, (), self.steps())

    def begins_step(self) -> bool:
        return self.token.type == "name" or self.token.text in (".", "..", "@", "*")

    def steps_behind(self) -> tuple[Step, ...]:
        """What stands behind '/' or '//', if one does."""
        if self.accept("/"):
            return self.steps()
        if self.accept("//"):
            return self.steps(anywhere=True)
        return ()

    def steps(self, anywhere: bool = False) -> tuple[Step, ...]:
        out = [*self.step(anywhere)]
        while self.is_next("/") or self.is_next("//"):
            anywhere = self.token.text == "//"
            self.at += 1
            out += self.step(anywhere)
        return tuple(out)

    def step(self, anywhere: bool) -> tuple[Step, ...]:
        """A step, or behind '//' the two that stand for it."""
        step = self.one_step()
        return (Step("descendant-or-self", Test("node", None)), step) if anywhere else (step,)

    def one_step(self) -> Step:
        if self.accept("."):
            return Step("self", Test("node", None))
        if self.accept(".."):
            return Step("parent", Test("node", None))
        axis = "child"
        if self.accept("@"):
            axis = "attribute"
        elif self.is_next("::", 1):
            axis = self.token.text
            if axis not in AXES:
                raise ValueError(f"has the axis '{axis}', which is not read here")
            self.at += 2
        return Step(axis, self.test(), self.predicates())

    def test(self) -> Test:
        token = self.token
        if token.type != "name" and token.text != "*":
            self.unexpected()
        self.at += 1
        if self.is_next(":"):
            raise ValueError(
                f"has the prefix '{token.text}', and documents are read without namespaces"
            )
        if not self.accept("("):
            return Test(None, None if token.text == "*" else token.text)
        if token.text not in _NODE_TYPES:
            raise ValueError(f"has {token.text}() where nodes are named")
        name = None
        if token.text == "processing-instruction" and self.token.type == "text":
            name = self.token.text[1:-1]
            self.at += 1
        self.expect(")")
        return Test(token.text, name)

    def predicates(self) -> tuple[XPath, ...]:
        out = []
        while self.accept("["):
            out.append(self.level(0))
            self.expect("]")
        return tuple(out)


def may_count(predicate: XPath) -> bool:
    """Whether a predicate may depend on the places of nodes: it is a number, or asks for one."""
    return kind_of(predicate) is Kind.NUMBER or _asks(predicate, ("position", "last"))


def _asks(expr: XPath, names: tuple[str, ...]) -> bool:
    """Whether an expression calls one of these for the node that it is of."""
    match expr:
        case Number() | Text():
            return False
        case Operation():
            return _asks(expr.left, names) or _asks(expr.right, names)
        case Minus() | Group():
            return _asks(expr.value, names)
        case Function():
            return expr.name in names or any(_asks(arg, names) for arg in expr.args)
        case Union():
            return any(_asks(part, names) for part in expr.parts)
        case Path():
            return expr.start is not None and _asks(expr.start, names)


# --- what Java's processor takes otherwise ------------------------------------------------------


def _ends_in_union(expr: XPath) -> bool:
    match expr:
        case Union():
            return True
        case Minus() | Group():
            return _ends_in_union(expr.value)
        case Operation():
            return _ends_in_union(expr.right)
        case _:
            return False


def _begins_with_a_path(expr: XPath) -> bool:
    """Whether an expression is a location path, or a call of one alone."""
    if isinstance(expr, Function) and len(expr.args) == 1:
        expr = expr.args[0]
    return isinstance(expr, Path) and expr.start is None


def _check(expr: XPath, safe: bool) -> None:
    """Refuse what Java reads otherwise. `safe`: an '=' in a call in a predicate does no harm."""
    match expr:
        case Operation():
            inner: tuple[XPath, ...] = (expr.left, expr.right)
        case Minus() | Group():
            inner = (expr.value,)
        case Function():
            inner = expr.args
            if expr.name in ("name", "local-name") and any(map(_is_first_taken, inner)):
                raise ValueError(
                    f"asks for the {expr.name}() of the first of nodes, where Java takes another "
                    "one; write (…)[1]"
                )
        case Union():
            inner = expr.parts
            if any(map(_is_below_nothing, inner)):
                raise ValueError("has a negative place of a child beside '|', where Java fails")
        case Path():
            predicates = (*expr.predicates, *(p for s in expr.steps for p in s.predicates))
            if any(map(_asks_backwards, expr.steps)):
                raise ValueError(
                    "asks for last() on an axis that goes back, with a predicate behind, where "
                    "Java counts otherwise"
                )
            if any(_asks(p, ("last",)) for p in expr.predicates[1:]):
                raise ValueError(
                    "asks for last() behind another predicate of what is in parentheses, where "
                    "Java counts otherwise"
                )
            for predicate in predicates:
                may_count_for_java(predicate, safe)
            if is_searched(expr) and _is_misled(expr):
                raise ValueError("goes to descendants in a way that Java takes for //")
            inner = (*predicates, *(() if expr.start is None else (expr.start,)))
        case _:
            inner = ()
    for part in inner:
        _check(part, safe)


def _asks_backwards(step: Step) -> bool:
    back = step.axis in ("ancestor", "ancestor-or-self", "preceding", "preceding-sibling")
    return back and any(_asks(p, ("last",)) for p in step.predicates[:-1])


def may_count_for_java(predicate: XPath, safe: bool = True) -> bool:
    """Whether Java takes a predicate for one that may depend on places, which it does more often.

    Raises: ValueError for a comparison in a call, or in another one, which it looks up elsewhere.
    """
    match predicate:
        case Path():
            return False
        case Function():
            return _counts_for_java(predicate, safe)
        case Operation(operator="=" | "<" | "<=" | ">" | ">="):
            sides = [_counts_for_java(side, safe) for side in (predicate.left, predicate.right)]
            return any(sides)
        case _:
            return True


def _counts_for_java(expr: XPath, safe: bool) -> bool:
    match expr:
        case Number() | Text() | Path():
            return False
        case Function():
            inner = [_counts_for_java(arg, safe) for arg in expr.args]
            return expr.name in ("last", "position") or any(inner)
        case Operation(operator="=" | "<" | "<=" | ">" | ">=" as operator):
            if operator != "=" or not safe:
                raise ValueError(
                    f"compares by '{operator}' in a call in a predicate; put the comparison in "
                    "parentheses, without which Java looks at another place"
                )
            return True
        case _:
            return True


_DEEP = ("descendant", "descendant-or-self")


def is_searched(path: Path) -> bool:
    """Whether Java looks for the last step's nodes by their whole names, with prefixes, and for
    texts that are not all CDATA: for //a, .//a, /descendant::a and the like."""
    if path.start is not None or not 2 <= len(path.steps) + path.absolute <= 3:
        return False
    from_self = or_self = deep = False
    for i, step in enumerate(path.steps, int(path.absolute)):
        is_last = step is path.steps[-1]
        if any(map(may_count_for_java, step.predicates)):
            return False
        if not is_last and step.test.type != "node":
            return False
        match step.axis:
            case "child" if or_self or (deep and from_self):
                pass
            case "descendant" | "descendant-or-self" if i < 2:
                deep, or_self = True, or_self or step.axis != "descendant"
            case "self" if i == 0:
                from_self = True
            case _:
                return False
    return True


def _is_misled(path: Path) -> bool:
    """Whether Java's search finds other nodes than the steps say."""
    *before, last = path.steps
    axes = [step.axis for step in before]
    odd = last.axis == "descendant" or last.test.type not in ("node", None)
    return (
        any(step.predicates for step in before)
        or "descendant" in axes
        or "child" in axes
        or (last.axis == "child" and any(map(may_count, last.predicates)))
        or (last.axis in _DEEP and ("descendant-or-self" in axes or ("self" in axes and odd)))
    )


def _is_below_nothing(part: XPath) -> bool:
    """Whether a path is a step to children by a number with a sign, which no place is."""
    if not isinstance(part, Path) or [step.axis for step in part.steps] != ["child"]:
        return False
    return any(_is_negative(predicate) for predicate in part.steps[0].predicates)


def _is_negative(expr: XPath) -> bool:
    return isinstance(expr, Minus) or (isinstance(expr, Group) and _is_negative(expr.value))


def _is_first_taken(expr: XPath) -> bool:
    """Whether Java takes another node than the first, where a call is of one: the first of an axis
    whatever it is, or the first that it comes by, where steps do not go down in order."""
    if not isinstance(expr, Path) or not expr.steps:
        return False
    *before, last = expr.steps
    if is_searched(expr):
        is_any = last.test.name is None and last.test.type in (None, "processing-instruction")
        return is_any and not last.predicates
    if expr.start is not None:
        return any(step.axis not in ("self", "attribute") for step in expr.steps)
    level = ("child", "self", "attribute", "parent")
    return any(step.axis not in level for step in before) or last.axis not in (*level, *_DEEP)
