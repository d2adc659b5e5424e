"""Values of XML by paths: XPATH, XPATH_STRING and the like.

A path is compiled once, into closures over (node, position, size): a set of nodes is a list in the
order of the document, each once. What values become of each other is what Java's processor makes
of them: numbers of texts and texts of numbers, texts in units of UTF-16, places cut off to
integers, and its own mind about the lengths of substrings and about names with prefixes.

Source: XPath 1.0; Java `com.sun.org.apache.xpath.internal` (objects, functions, axes); Spark
`UDFXPathUtil`, `XPathExpressions`.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeAlias

import pyarrow as pa

from operators.flight.column import Bools, Column
from operators.scalar import xml_trees
from operators.scalar.json_values import column_of
from operators.scalar.lists import strict
from operators.scalar.strings import rowwise, text_of
from operators.scalar.text import format_float
from operators.scalar.value import Builder, Errors, Node, Run, failures
from operators.scalar.xml_trees import Node as XmlNode
from planner.calculus import xpaths
from planner.calculus.expr import Call
from planner.calculus.xpaths import Kind, Step, Test, XPath, kind_of, may_count

#: Of a node, its position among so many.
Value: TypeAlias = Callable[[XmlNode, int, int], Any]
_Filter: TypeAlias = Callable[[list[XmlNode]], list[XmlNode]]

_MAX_INT, _MAX_LONG = (1 << 31) - 1, (1 << 63) - 1
_ORDER = attrgetter("order")
_TYPES = {
    "text": xml_trees.TEXT,
    "comment": xml_trees.COMMENT,
    "processing-instruction": xml_trees.INSTRUCTION,
}

# --- values of each other ----------------------------------------------------------------------

_JAVA_BLANK = "".join(map(chr, range(0x21)))
_DIGITS = re.compile(r"[\-.0-9]+\Z")


def number_of(text: str) -> float:
    """NaN of what is none; an exponent, or a plus, is not of a number."""
    word = text.strip(_JAVA_BLANK)
    try:
        return float(word) if _DIGITS.match(word) else math.nan
    except ValueError:
        return math.nan


def text_of_number(value: float) -> str:
    """Without an exponent."""
    if value == 0:
        return "0"
    shown = format_float(value)
    digits, _, exponent = shown.partition("E")
    if not exponent:
        return digits.removesuffix(".0")
    sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    whole, _, rest = digits.partition(".")
    places, rest = int(exponent), rest.rstrip("0")
    if places < 0:
        return f"{sign}0.{'0' * (-1 - places)}{whole}{rest}"
    rest = rest.ljust(places, "0")
    return f"{sign}{whole}{rest[:places]}{'.' if rest[places:] else ''}{rest[places:]}"


def _integer(value: float, most: int) -> int:
    """Java's narrowing: towards zero, to the nearest that there is; 0 of NaN."""
    if math.isnan(value):
        return 0
    least = -most - 1
    return most if value >= most else least if value <= least else int(value)


def _halves(text: str) -> str:
    """Characters beyond 16 bits in their two halves, as Java counts."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join([chr(data[i] | data[i + 1] << 8) for i in range(0, len(data), 2)])


def _joined(text: str) -> str:
    """Halves that belong together, as one character."""
    if text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _written(text: str) -> str:
    """A half that is alone has no UTF-8."""
    return text.encode(errors="replace").decode() if not text.isascii() else text


def _as_number(value: Any) -> float:
    match value:
        case list():
            return number_of(value[0].text()) if value else math.nan
        case str():
            return number_of(value)
        case _:
            return float(value)


def _as_text(value: Any) -> str:
    match value:
        case list():
            return value[0].text() if value else ""
        case bool():
            return "true" if value else "false"
        case float():
            return text_of_number(value)
        case _:
            return str(value)


def _as_truth(value: Any) -> bool:
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


_CASTS: dict[Kind, Callable[[Any], Any]] = {
    Kind.NUMBER: _as_number,
    Kind.TEXT: _as_text,
    Kind.TRUTH: _as_truth,
}


def compiled(expr: XPath, kind: Kind = Kind.ANY) -> Value:
    """The value of an expression, as one of a kind."""
    value = _compiled(expr)
    if kind in (Kind.ANY, kind_of(expr)) or kind is Kind.NODES:
        return value
    cast = _CASTS[kind]
    return lambda node, at, size: cast(value(node, at, size))


def _compiled(expr: XPath) -> Value:
    match expr:
        case xpaths.Number(value=constant) | xpaths.Text(value=constant):
            return lambda node, at, size: constant
        case xpaths.Group():
            return _compiled(expr.value)
        case xpaths.Minus():
            number = compiled(expr.value, Kind.NUMBER)
            return lambda node, at, size: -number(node, at, size)
        case xpaths.Operation():
            return _operation(expr)
        case xpaths.Function():
            return _function(expr)
        case xpaths.Union():
            parts = [compiled(part) for part in expr.parts]
            return lambda node, at, size: _ordered(
                n for part in parts for n in part(node, at, size)
            )
        case xpaths.Path():
            return _path(expr)


# --- operators ---------------------------------------------------------------------------------


def _quotient(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _remainder(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "div": _quotient,
    "mod": _remainder,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _operation(expr: xpaths.Operation) -> Value:
    name = expr.operator
    if name in ("or", "and"):
        left, right = (compiled(side, Kind.TRUTH) for side in (expr.left, expr.right))
        if name == "or":
            return lambda node, at, size: left(node, at, size) or right(node, at, size)
        return lambda node, at, size: left(node, at, size) and right(node, at, size)
    if name in _ARITHMETIC:
        compute = _ARITHMETIC[name]
        left, right = (compiled(side, Kind.NUMBER) for side in (expr.left, expr.right))
        return lambda node, at, size: compute(left(node, at, size), right(node, at, size))
    return _comparison(name, expr.left, expr.right)


def _comparison(name: str, left: XPath, right: XPath) -> Value:
    """Of nodes, whether one compares so. Texts are equal as texts, and greater as numbers."""
    kinds = {kind_of(left), kind_of(right)}
    if kind_of(left) is not Kind.NODES and kind_of(right) is Kind.NODES:
        name, left, right = _TURNED.get(name, name), right, left
    compare, is_equality = _COMPARISONS[name], name in ("=", "!=")
    if Kind.NODES in kinds and Kind.TRUTH not in kinds:
        as_texts = is_equality and Kind.NUMBER not in kinds
        read = XmlNode.text if as_texts else _number_of_node
        nodes = compiled(left)
        if kind_of(right) is Kind.NODES:
            others = compiled(right)
            return lambda node, at, size: _any_of(
                compare, map(read, nodes(node, at, size)), list(map(read, others(node, at, size)))
            )
        other = compiled(right, Kind.TEXT if as_texts else Kind.NUMBER)
        return lambda node, at, size: _any_of(
            compare, map(read, nodes(node, at, size)), [other(node, at, size)]
        )
    if not is_equality:
        # A truth beside nodes is one of them all.
        shared = [Kind.TRUTH if kind_of(s) is Kind.NODES else Kind.NUMBER for s in (left, right)]
        a, b = (compiled(s, k) for s, k in zip((left, right), shared, strict=True))
        return lambda node, at, size: compare(
            _as_number(a(node, at, size)), _as_number(b(node, at, size))
        )
    order = (Kind.TRUTH, Kind.NUMBER, Kind.TEXT)
    kind = next(k for k in order if k in kinds)
    a, b = compiled(left, kind), compiled(right, kind)
    return lambda node, at, size: compare(a(node, at, size), b(node, at, size))


def _any_of(compare: Callable[[Any, Any], bool], left: Iterable[Any], right: list[Any]) -> bool:
    return any(compare(a, b) for a in left for b in right)


def _number_of_node(node: XmlNode) -> float:
    return number_of(node.text())


# --- paths -------------------------------------------------------------------------------------


def _ordered(nodes: Iterable[XmlNode]) -> list[XmlNode]:
    return sorted({node.order: node for node in nodes}.values(), key=_ORDER)


def _path(path: xpaths.Path) -> Value:
    steps = _steps(path)
    start = None if path.start is None else compiled(path.start)
    chosen = [_chosen(p) for p in path.predicates]

    def nodes(node: XmlNode, at: int, size: int) -> list[XmlNode]:
        found = [node] if not path.absolute else [node.tree[0]]
        if start is not None:
            found = start(node, at, size)
        for choose in chosen:
            found = choose(found)
        for step in steps:
            found = _ordered([n for context in found for n in step(context)])
        return found

    return nodes


def _steps(path: xpaths.Path) -> list[Callable[[XmlNode], list[XmlNode]]]:
    """The steps; //a is one of them, unless its predicates ask for a place among siblings."""
    steps: list[Step] = []
    for step in path.steps:
        is_plain = step.axis == "child" and not any(map(may_count, step.predicates))
        if is_plain and steps and steps[-1] == _ANYWHERE:
            steps[-1] = replace(step, axis="descendant")
        else:
            steps.append(step)
    searched = [xpaths.is_searched(path) and step is steps[-1] for step in steps]
    return [_step(*pair) for pair in zip(steps, searched, strict=True)]


_ANYWHERE = Step("descendant-or-self", Test("node", None))


def _step(step: Step, is_searched: bool) -> Callable[[XmlNode], list[XmlNode]]:
    axis, test = _AXES[step.axis], _test(step.axis, step.test, is_searched)
    if axis is _following_siblings and step.test.type == "node":
        axis = _any_following_siblings
    chosen = [_chosen(p) for p in step.predicates]

    def nodes(context: XmlNode) -> list[XmlNode]:
        found = [n for n in axis(context) if test(n)]
        for choose in chosen:
            found = choose(found)
        return found

    return nodes


def _chosen(predicate: XPath) -> _Filter:
    """The nodes that fulfil a predicate, in their order: that of the axis they are of."""
    value = compiled(predicate)
    if isinstance(predicate, xpaths.Number):
        place = _integer(predicate.value, _MAX_INT)
        return lambda nodes: nodes[place - 1 : place] if place > 0 else []
    if kind_of(predicate) is Kind.NUMBER:
        return lambda nodes: [
            node
            for i, node in enumerate(nodes, 1)
            if _integer(value(node, i, len(nodes)), _MAX_INT) == i
        ]
    if may_count(predicate):
        return lambda nodes: [
            node for i, node in enumerate(nodes, 1) if _as_truth(value(node, i, len(nodes)))
        ]
    return lambda nodes: [node for node in nodes if _as_truth(value(node, 1, 1))]


def _test(axis: str, test: Test, is_searched: bool) -> Callable[[XmlNode], bool]:
    match test.type:
        case "node":
            return lambda node: True
        case "text" if is_searched:
            return lambda node: node.type == xml_trees.TEXT and not node.is_cdata
        case None:
            own = xml_trees.ATTRIBUTE if axis == "attribute" else xml_trees.ELEMENT
        case _:
            own = _TYPES[test.type]
    name = test.name
    if name is None:
        return lambda node: node.type == own
    if is_searched:
        return lambda node: node.name == name and node.type == own
    return lambda node: node.local == name and node.type == own


def _ancestors(node: XmlNode) -> list[XmlNode]:
    out = []
    above = node.parent
    while above is not None:
        out.append(above)
        above = above.parent
    return out


def _siblings(node: XmlNode) -> tuple[list[XmlNode], int]:
    """Its parent's children, and which it is among them; none of an attribute."""
    if node.parent is None or node.type == xml_trees.ATTRIBUTE:
        return [], 0
    among = node.parent.children
    return among, next(i for i, other in enumerate(among) if other is node)


def _following_siblings(node: XmlNode) -> list[XmlNode]:
    among, i = _siblings(node)
    return among[i + 1 :]


def _any_following_siblings(node: XmlNode) -> list[XmlNode]:
    """For node(), by which Java finds other attributes behind one, and declarations."""
    if node.type == xml_trees.ATTRIBUTE:
        raise ValueError(f"{xml_trees.ERROR} following-sibling::node() of an attribute is not read")
    return _following_siblings(node)


def _preceding_siblings(node: XmlNode) -> list[XmlNode]:
    among, i = _siblings(node)
    return among[:i][::-1]


def _following(node: XmlNode) -> list[XmlNode]:
    first = node.place + 1 if node.type == xml_trees.ATTRIBUTE else node.end
    return node.tree[first:]


def _preceding(node: XmlNode) -> list[XmlNode]:
    """From the child of the root that it is in: Java sees none before that."""
    above = [n for n in _ancestors(node) if n.type == xml_trees.ELEMENT]
    first = above[-1].place if above else node.place
    return [n for n in node.tree[first : node.place][::-1] if n.end <= node.place]


def _descendants(node: XmlNode) -> list[XmlNode]:
    return [] if node.type == xml_trees.ATTRIBUTE else node.tree[node.place + 1 : node.end]


#: Nearest first.
_AXES: dict[str, Callable[[XmlNode], list[XmlNode]]] = {
    "self": lambda node: [node],
    "child": lambda node: node.children,
    "attribute": lambda node: node.attributes,
    "parent": lambda node: [] if node.parent is None else [node.parent],
    "ancestor": _ancestors,
    "ancestor-or-self": lambda node: [node, *_ancestors(node)],
    "descendant": _descendants,
    "descendant-or-self": lambda node: [node, *_descendants(node)],
    "following": _following,
    "following-sibling": _following_siblings,
    "preceding": _preceding,
    "preceding-sibling": _preceding_siblings,
}

# --- functions ---------------------------------------------------------------------------------

_XML_BLANK = re.compile("[ \t\r\n]+")


def _rounded(value: float) -> float:
    if -0.5 <= value < 0:
        return -0.0
    return value if value == 0 or not math.isfinite(value) else float(math.floor(value + 0.5))


def _whole(toward: Callable[[float], int]) -> Callable[[float], float]:
    def op(value: float) -> float:
        if not math.isfinite(value):
            return value
        return math.copysign(float(toward(value)), value)

    return op


def _long(value: float) -> int:
    """Java's Math.round."""
    if not math.isfinite(value) or abs(value) >= 1 << 52:
        return _integer(value, _MAX_LONG)
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


def _substring(text: str, start: float, length: float | None = None) -> str:
    """As Java computes it, which fails on a negative length that reaches before the start."""
    units = _halves(text)
    if not units:
        return ""
    begin = -1_000_000 if math.isnan(start) else _long(start)
    first = min(max(_integer(begin, _MAX_INT) - 1, 0), len(units))
    if length is None:
        return _joined(units[first:])
    reach = _integer(float(_long(length)) + float(begin), _MAX_INT)
    end = _MAX_INT if reach == -_MAX_INT - 1 else reach - 1
    end = min(max(end, 0), len(units))
    if first > end:
        raise ValueError(f"{xml_trees.ERROR} substring() ends before it begins")
    return _joined(units[first:end])


def _sum(nodes: list[XmlNode]) -> float:
    """In their order; `sum` would make up for what is rounded."""
    return functools.reduce(operator.add, (number_of(n.text()) for n in nodes), 0.0)


def _translated(text: str, old: str, new: str) -> str:
    units, to = _halves(old), _halves(new)
    by: dict[int, str | None] = {}
    for i, c in enumerate(units):
        by.setdefault(ord(c), to[i] if i < len(to) else None)
    return _joined(_halves(text).translate(by))


#: Of arguments of their kinds; a set of nodes is its first node, or None.
_OF_VALUES: dict[str, Callable[..., Any]] = {
    "concat": lambda *texts: _joined("".join(texts)),
    "starts-with": str.startswith,
    "contains": str.__contains__,
    "substring-before": lambda text, part: text[: max(text.find(part), 0)],
    "substring-after": lambda text, part: text[text.find(part) + len(part) :] * (part in text),
    "substring": _substring,
    "string-length": lambda text: float(len(_halves(text))),
    "normalize-space": lambda text: _XML_BLANK.sub(" ", text).strip(" "),
    "translate": _translated,
    "not": operator.not_,
    "true": lambda: True,
    "false": lambda: False,
    "floor": _whole(math.floor),
    "ceiling": _whole(math.ceil),
    "round": _rounded,
    "count": lambda nodes: float(len(nodes)),
    "sum": _sum,
    "name": lambda nodes: nodes[0].name if nodes else "",
    "local-name": lambda nodes: nodes[0].local if nodes else "",
    "namespace-uri": lambda nodes: "",
    "string": _as_text,
    "number": _as_number,
    "boolean": _as_truth,
}


def _function(call: xpaths.Function) -> Value:
    if call.name == "position":
        return lambda node, at, size: float(at)
    if call.name == "last":
        return lambda node, at, size: float(size)
    function = _OF_VALUES[call.name]
    kinds = xpaths.FUNCTIONS[call.name][0]
    if kinds and not call.args:  # of the context
        if kinds[0] is Kind.TEXT:
            return lambda node, at, size: function(node.text())
        return lambda node, at, size: function([node])
    padded = (*kinds, *kinds[-1:] * len(call.args))
    args = [compiled(arg, kind) for arg, kind in zip(call.args, padded, strict=False)]
    return lambda node, at, size: function(*[arg(node, at, size) for arg in args])


# --- of SQL ------------------------------------------------------------------------------------


def _evaluator(args: tuple[Node, ...], kind: Kind) -> Callable[[str], Any]:
    """The value of a document by the path, of a kind; None of a text or by a path that is empty."""
    path = text_of(args[1])
    assert path is not None, "a literal"
    if not path:
        return lambda text: None
    value = compiled(xpaths.parse(path), kind)

    def of(text: str) -> Any:
        return value(xml_trees.parse(text), -1, 0) if text else None

    return of


def _nodes(call: Call, args: tuple[Node, ...]) -> Run:
    nodes = _evaluator(args, Kind.NODES)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        found: list[Any] = [None] * n
        failed: dict[int, str] = {}
        for i, text in enumerate(given[0].values.to_pylist()):
            if valid[i]:
                try:
                    some = nodes(text)
                except ValueError as error:
                    failed[i] = str(error)
                    continue
                found[i] = None if some is None else [node.own for node in some]
        return column_of(call.type, found), failures(n, failed, failed.values())

    return strict(args[:1], op)


def _value(kind: Kind, made: Callable[[Any], Any], stored: pa.DataType | None) -> Builder:
    def build(call: Call, args: tuple[Node, ...]) -> Run:
        value = _evaluator(args, kind)

        def of(text: str) -> Any:
            found = value(text)
            return None if found is None else made(found)

        return rowwise(args[:1], of, stored)

    return build


def _short(value: float) -> int:
    return ((_integer(value, _MAX_INT) + (1 << 15)) & 0xFFFF) - (1 << 15)


BUILDERS: dict[str, Builder] = {
    "xpath": _nodes,
    "xpath_boolean": _value(Kind.TRUTH, bool, None),
    "xpath_string": _value(Kind.TEXT, _written, pa.string()),
    "xpath_double": _value(Kind.NUMBER, float, pa.float64()),
    "xpath_float": _value(Kind.NUMBER, float, pa.float32()),
    "xpath_long": _value(Kind.NUMBER, lambda v: _integer(v, _MAX_LONG), pa.int64()),
    "xpath_int": _value(Kind.NUMBER, lambda v: _integer(v, _MAX_INT), pa.int64()),
    "xpath_short": _value(Kind.NUMBER, _short, pa.int64()),
}
