"""Documents of XML and paths into them: `python -m tests.sql.xpath_cases` records what Spark finds.

Both are made at random, from a seed, beside some that are written by hand. The answers (of XPATH,
where a path is to nodes, of XPATH_STRING, XPATH_DOUBLE and XPATH_BOOLEAN) go to xpath_answers.json,
which test_xpaths reads without Spark. `python -m tests.sql.xpath_cases SEED COUNT` compares as many
new pairs with Spark instead.
"""

# ruff: noqa: E501 - a table of data

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from planner.calculus import xpaths
from planner.calculus.xpaths import Kind

ANSWERS = Path(__file__).with_name("xpath_answers.json")
#: Of each path, how many documents are looked at.
EACH = 10
_NAMES = ("a", "b", "c", "p:a", "xml", "x-y", "é")
_VALUES = (
    *(
        "1",
        "2",
        "10",
        "-3",
        "1.5",
        " 7 ",
        "1e3",
        "+2",
        "x",
        "abc",
        "",
        "  ",
        "a b  c\n",
        "😀é",
        "0.1",
    ),
    *("NaN", "Infinity", "-0", ".5", "5.", "99999999999", "1-2", "\u00a05", "true", "1e400"),
)
_TYPE = (
    '<!DOCTYPE a [<!ENTITY e "E1"><!ENTITY f "<b>6</b>"><!ENTITY g ""><!ENTITY h "h&e;&#60;b/>">'
    '<!ATTLIST a x CDATA "dx" d NMTOKEN " q  r "><!-- in --><?in dtd?>]>'
)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", "&#10;")


def document(rng: random.Random) -> str:
    has_type = rng.random() < 0.1
    start = ""
    if rng.random() < 0.2:
        start = rng.choice(
            ('<?xml version="1.0"?>', "<?xml version='1.0' encoding='UTF-8' standalone='yes'?>\n")
        )
    if rng.random() < 0.1:
        start += "<!--top--><?t top?>\n"
    end = "\n<!--end--><?t end?>  " if rng.random() < 0.1 else ""
    return start + _TYPE * has_type + _element(rng, 0, has_type) + end


def _element(rng: random.Random, depth: int, has_type: bool) -> str:
    name = rng.choice(_NAMES if rng.random() < 0.3 else _NAMES[:3])
    keys = ("id", "x", "y", "p:x", "xmlns", "xmlns:p", "B", "é", "xml:lang")
    given = {rng.choice(keys): rng.choice(_VALUES) for _ in range(rng.choice((0, 0, 1, 2)))}
    start = name + "".join(f' {k}="{_escaped(v)}"' for k, v in given.items())
    if rng.random() < 0.12:
        return f"<{start}/>"
    inner = [
        _content(rng, depth, has_type)
        for _ in range(rng.choice((0, 1, 1, 2, 3)) if depth < 4 else 0)
    ]
    return f"<{start}>{''.join(inner)}</{name}>"


def _content(rng: random.Random, depth: int, has_type: bool) -> str:
    match rng.choices(range(7), (50, 30, 6, 4, 4, 3, 3))[0]:
        case 0:
            return _element(rng, depth + 1, has_type)
        case 1:
            return _escaped(rng.choice(_VALUES))
        case 2:
            return f"<![CDATA[{rng.choice((*_VALUES, '<q>&amp;', ''))}]]>"
        case 3:
            return f"<!--{rng.choice(('c', '', ' 1 ', 'x y'))}-->"
        case 4:
            return f"<?{rng.choice(('t', 'u', 'xml-x'))} {rng.choice(('d', '', '7 '))}?>"
        case 5:
            return rng.choice(("&lt;", "&#65;", "&#x1F600;", "&amp;", "&#13;", "&#9;"))
        case _:
            return rng.choice(("&e;", "&f;", "&g;", "&h;")) if has_type else "\r\n"


def spoilt(rng: random.Random) -> str:
    """A document with a character too few or too many, or without its end."""
    text = document(rng)
    at = rng.randrange(1, len(text) + 1)
    cut = text[:at]
    return rng.choice(
        (cut[:-1] + text[at:], cut + rng.choice("<>&;\"'/=!?-[]x1 \n\x01:") + text[at:], cut)
    )


_AXES = sorted(xpaths.AXES)
_TESTS = (
    *("a", "b", "c", "*", "a", "b", "*", "node()", "text()", "x", "id", "comment()", "x-y", "é"),
    *("xml", "processing-instruction()", "processing-instruction('t')"),
)
_PLACES = (
    *("1", "2", "3", "last()", "last()-1", "position()=2", "position()<3", "position()!=last()"),
    *("1.7", "0", "-1", "position() mod 2"),
)
_NUMBERS = (
    *("1", "2", "0.5", "10", "-1", "1 div 0", "0 div 0", "-0.5", "3.7", "1000000000000"),
    *("0.00001", "1 div 3", "position()", "last()"),
)
_TEXTS = ("'a'", '"abc"', "''", "' x  y '", "'12'", "'😀x'", "'1'", "'-'")
_DEEPEST = 3


def _step(rng: random.Random, depth: int) -> str:
    at = rng.random()
    if at < 0.12:
        return rng.choice((".", ".."))
    before = "" if at < 0.55 else "@" if at < 0.65 else f"{rng.choice(_AXES)}::"
    names = ("x", "id", "*", "y", "node()", "d") if before == "@" else _TESTS
    step = before + rng.choice(names)
    while depth < _DEEPEST and rng.random() < 0.25:
        place = rng.random() < 0.35
        step += f"[{rng.choice(_PLACES) if place else expression(rng, depth + 1)}]"
    return step


def path(rng: random.Random, depth: int = 0) -> str:
    out = rng.choice(("", "/", "//", "", "")) + _step(rng, depth)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        out += rng.choice(("/", "/", "//")) + _step(rng, depth)
    if depth < _DEEPEST and rng.random() < 0.08:
        out = f"({out})" + rng.choice(("", f"[{rng.choice(_PLACES)}]", f"/{_step(rng, depth)}"))
    if depth < _DEEPEST and rng.random() < 0.06:
        out += rng.choice((" | ", "|")) + path(rng, depth + 1)
    return out


def expression(rng: random.Random, depth: int = 0) -> str:
    makers = (path, path, path, _number, _text, _truth)
    return rng.choice(makers)(rng, depth)


def _number(rng: random.Random, depth: int) -> str:
    if depth > _DEEPEST:
        return rng.choice(_NUMBERS)
    inner = depth + 1
    match rng.randrange(6):
        case 0:
            return rng.choice(_NUMBERS)
        case 1:
            return f"{rng.choice(('count', 'sum'))}({path(rng, inner)})"
        case 2:
            name = rng.choice(("floor", "ceiling", "round", "number"))
            return f"{name}({expression(rng, inner)})"
        case 3:
            return f"string-length({rng.choice(('', _text(rng, inner)))})"
        case 4:
            return f"-{path(rng, inner)}"
        case _:
            sign = rng.choice((" + ", " - ", " * ", " div ", " mod "))
            return _number(rng, inner) + sign + _number(rng, inner)


def _text(rng: random.Random, depth: int) -> str:
    if depth > _DEEPEST:
        return rng.choice(_TEXTS)
    inner = depth + 1
    any_one = expression(rng, inner)
    match rng.randrange(7):
        case 0:
            return rng.choice(_TEXTS)
        case 1:
            return f"{rng.choice(('string', 'normalize-space'))}({rng.choice(('', any_one))})"
        case 2:
            return f"concat({any_one},{expression(rng, inner)})"
        case 3:
            length = rng.choice(("", f",{_number(rng, inner)}"))
            return f"substring({any_one},{_number(rng, inner)}{length})"
        case 4:
            return f"translate({any_one},{_text(rng, inner)},{_text(rng, inner)})"
        case 5:
            side = rng.choice(("before", "after"))
            return f"substring-{side}({any_one},{_text(rng, inner)})"
        case _:
            name = rng.choice(("name", "local-name", "namespace-uri"))
            return f"{name}({rng.choice(('', path(rng, inner)))})"


def _truth(rng: random.Random, depth: int) -> str:
    if depth > _DEEPEST:
        return rng.choice(("true()", "false()"))
    inner = depth + 1
    left, right = expression(rng, inner), expression(rng, inner)
    match rng.randrange(4):
        case 0 | 1:
            return left + rng.choice(("=", "!=", " < ", " <= ", " > ", " >= ")) + right
        case 2:
            name = rng.choice(("contains", "starts-with"))
            return rng.choice(
                (f"{name}({left},{_text(rng, inner)})", f"not({left})", f"boolean({left})")
            )
        case _:
            return f"{left} {rng.choice(('and', 'or'))} {right}"


_WRITTEN_DOCUMENTS = (
    "<a>x<![CDATA[y]]>z<b><![CDATA[1]]></b></a>",
    '<a b="1" a="2" xmlns="u" xmlns:p="v" p:c="3"><p:a>4</p:a></a>',
    "<a><b>1</b><b>2</b><c/><b>3</b><p:b xml:lang='en'>x</p:b></a>",
    "<xml><?p q?><b><?t u?></b></xml>",
    f"{_TYPE}<a>1&e;2&f;&g;<b d=' 1  2 '/></a>",
    '<?xml version="1.1"?><a>1<b x="é"/></a>',
    "<!--1--><a><!--2--><b/>\r\n</a><!--3-->",
    "<div><div>8</div><mod>3</mod><and/><or>é😀</or></div>",
    "<a><b>99999999999</b><b>-1e3</b><b>70000</b><b>1.99</b></a>",
    "<!DOCTYPE a [<!ENTITY e SYSTEM 'none'>]><a>1&e;2</a>",
)
_WRITTEN_PATHS = (
    *("/", "a", "//a", ".//a", "/descendant::b", "a/b/text()", "a//text()", "//text()", "a/@*", "//@c | //b"),
    *("a/b[2]", "a/b[last()]", "a/b[1.5]", "a/c/preceding-sibling::b[1]", "//b/ancestor::*", "//b/..", "//*[@x]"),
    *("div div div", "div/div * 2", "div/div mod div/mod", "div/mod div 0", "-a/b", "1 - 2 - 3", "0 div 0"),
    *("'a' = 'a'", "a/b = 2", "a/b != 2", "a/b > 1", "2 >= a/b", "a/b = a/b", "a = true()", "a < true()"),
    *("count(//b)", "sum(a/b)", "sum(//b) div count(//b)", "string(1 div 3)", "string(1000000 * 1000000)"),
    *("string(-0)", "string(0.000001)", "1 div 0", "round(-0.2)", "round(2.5)", "floor(-1.5)", "ceiling(-0.5)"),
    *("number('1e3')", "number(' 5 ')", "number('+1')", "number('')", "number(true())", "'😀é' = //or"),
    *("substring('12345', 2, 3)", "substring('12345', 1.5, 2.6)", "substring('12345', 0, 3)", "substring('a😀b', 2, 1)"),
    *("substring('12345', 0 div 0)", "substring('12345', 4, -3)", "substring('12345', -42, 1 div 0)"),
    *("string-length('a😀b')", "translate('a😀b', 'ab', 'x')", "normalize-space('  a  b ')", "concat(1, true(), 'x')"),
    *("substring-before('a-b', '-')", "substring-after('a-b', '-')", "contains('abc', '')", "starts-with('', '')"),
    *("name(a/@*)", "local-name((//*)[2])", "name(//comment())", "name()", "namespace-uri(*)", "position()", "last()"),
    *("//comment()", "//processing-instruction()", "processing-instruction('t')", "//node()", "self::node()", "not(a)"),
    *("(//b)[2]", "(//b | //c)[last()]", "//b[. = 1]/following::node()", "//c/preceding::*", "a[b and not(c)]"),
    *("a[b][c]", "//*[name() = 'b']", "//*[not(@*)]", "//*[count(b) > 1]", "//*[contains(., '1')]", "//b[position() < 3]"),
    *("//*[not((. < 2))]", "//b[../c]", "/a/b/../c", "a/*[self::b or self::c]", "//b[.!='1']", "string(//b[3])"),
)  # fmt: skip


def is_read(text: str) -> bool:
    try:
        xpaths.parse(text)
    except ValueError:
        return False
    return True


def cases(rng: random.Random, count: int) -> list[tuple[str, list[str]]]:
    """Paths that are read, each with documents."""
    documents = [document(rng) for _ in range(5 * EACH)]
    found = []
    while len(found) < count:
        text = rng.choice((path, expression))(rng)
        if is_read(text) and len(text) < 200:
            found.append((text, rng.sample(documents, EACH)))
    return found


def recorded() -> list[tuple[str, list[str]]]:
    """What is recorded: all of it, in the same order each time."""
    rng = random.Random(43)
    return [*((p, list(_WRITTEN_DOCUMENTS)) for p in _WRITTEN_PATHS), *cases(rng, 150)]


def functions_of(text: str) -> list[str]:
    is_nodes = xpaths.kind_of(xpaths.parse(text)) is Kind.NODES
    return ["xpath"] * is_nodes + ["xpath_string", "xpath_double", "xpath_boolean"]


def ask(wanted: list[tuple[str, list[str]]]) -> tuple[str, list[list[list[Any]]]]:
    """Spark's version, and what it finds: of each path, by document and function; numbers are texts,
    and what fails is {"error": true}."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")

    def columns(text: str) -> list[str]:
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        calls = [f"{name}(s, '{quoted}')" for name in functions_of(text)]
        return [f"CAST({c} AS STRING)" if "double" in c else c for c in calls]

    def answer(text: str, documents: list[str]) -> list[list[Any]]:
        table = session.createDataFrame(list(enumerate(documents)), "id INT, s STRING")
        rows = table.coalesce(1).selectExpr("id", *columns(text)).orderBy("id").collect()
        return [list(row[1:]) for row in rows]

    try:
        found = []
        for text, documents in wanted:
            try:
                found.append(answer(text, documents))
            except (PySparkException, Py4JJavaError):
                found.append([])
                for one in documents:
                    try:
                        found[-1] += answer(text, [one])
                    except (PySparkException, Py4JJavaError):
                        found[-1].append([{"error": True}] * len(columns(text)))
        return session.version, found
    finally:
        session.stop()


def main() -> None:
    wanted = recorded()
    version, answers = ask(wanted)
    text = {"spark": version, "answers": answers}
    ANSWERS.write_text(json.dumps(text, indent=0, ensure_ascii=False) + "\n")


def compare(seed: int, count: int) -> None:
    from tests.sql.test_xpaths import differences

    wanted = cases(random.Random(seed), count)
    wrong = differences(wanted, ask(wanted)[1])
    print("\n".join(wrong))
    print(f"{len(wrong)} of {count * EACH} pairs differ")


if __name__ == "__main__":
    compare(*map(int, sys.argv[1:])) if len(sys.argv) > 1 else main()
