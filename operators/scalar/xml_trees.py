"""Documents of XML as trees, read as Java's parser does without namespaces, validation and files.

Names are as they are written; what stands behind a prefix, which need not be declared, is the local
one. Attributes lie
in the order of their names, and those that declare namespaces are none. Text and CDATA next to each
other are one node, whose own value, as Java gives it, is that of the first of them.

Expat is that parser's equal: the same names (XML 1.0, fourth edition), internal entities and
defaults of attributes. What would have it read files, or control characters of XML 1.1, is an
error, and so is the name of an encoding that can be none.

Source: Java `DOM2DTM`, Xerces `AbstractDOMParser`; XPath 1.0 §5.
"""

from __future__ import annotations

import functools
import re
from xml.parsers import expat

ELEMENT, ATTRIBUTE, TEXT, COMMENT, INSTRUCTION, ROOT = range(6)


class Node:
    """`order`: its number among all nodes in the order of the document. `place`: where it stands in
    `tree`, which has all nodes but attributes; those up to `end` are in it. Of an attribute, they
    are its element's."""

    __slots__ = (
        *("attributes", "children", "end", "is_cdata", "local", "name", "order", "own", "parent"),
        *("place", "tree", "type", "value"),
    )

    def __init__(self, type: int, name: str, value: str, parent: Node | None) -> None:
        self.type = type
        self.name = name
        self.local = name.partition(":")[2] if ":" in name else name
        #: Of a text, with what is next to it; empty of elements and the root.
        self.value = value
        #: What Java calls its value: None of elements and the root.
        self.own: str | None = value
        #: Whether all of a text is CDATA.
        self.is_cdata = False
        self.parent = parent
        self.children: list[Node] = []
        self.attributes: list[Node] = []
        self.tree: list[Node] = []
        self.order = self.place = self.end = 0

    def text(self) -> str:
        """The string-value. Cost: O(nodes in it)."""
        if self.type in (ELEMENT, ROOT):
            inner = self.tree[self.place : self.end]
            return "".join([node.value for node in inner if node.type == TEXT])
        return self.value


ERROR = "[INVALID_XML]"
#: Of XML 1.1, what means the same in XML 1.0.
_PLAIN = re.compile(r"(?:[^&\x7f-\x9f\u2028]|&(?!#))*\Z")


#: Documents that are kept, of so many characters at most: several functions read one.
_KEPT, _SHORT = 256, 4096
_LONGEST_PIECE = 1 << 24


def parse(text: str) -> Node:
    """The root of the document, which is not to be changed.

    Raises: ValueError for what is none, or is not read.
    """
    return _kept(text) if len(text) <= _SHORT and "<!DOCTYPE" not in text else _parsed(text)


@functools.lru_cache(maxsize=_KEPT)
def _kept(text: str) -> Node:
    return _parsed(text)


def _parsed(text: str) -> Node:
    if text.startswith("\ufeff"):
        raise ValueError(f"{ERROR} a mark of byte order stands before the document")
    reader = _Reader(text)
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as wrong:
        what = expat.ErrorString(wrong.code)
        raise ValueError(
            f"{ERROR} the text is no XML: {what} (line {wrong.lineno}, column {wrong.offset + 1})"
        ) from None
    reader.close(reader.root)
    return reader.root


class _Reader:
    """What the parser finds, put together."""

    def __init__(self, text: str) -> None:
        self.document = text
        self.root = Node(ROOT, "", "", None)
        self.root.own = None
        self.tree: list[Node] = []
        self.count = 0
        self.within = self.root
        self.add(self.root)
        #: The text that more text would belong to, and whether it is still its first piece.
        self.run: Node | None = None
        self.is_first = False
        self.in_type = self.in_cdata = False
        parser = self.parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        # Pieces of a long text are put together one by one.
        parser.buffer_size = max(parser.buffer_size, min(len(text), _LONGEST_PIECE))
        parser.ordered_attributes = True
        parser.XmlDeclHandler = self.on_declaration
        parser.StartDoctypeDeclHandler = self.on_type
        parser.EndDoctypeDeclHandler = self.on_end_of_type
        parser.EntityDeclHandler = self.on_entity
        parser.StartElementHandler = self.on_start
        parser.EndElementHandler = self.on_end
        parser.CharacterDataHandler = self.on_text
        parser.StartCdataSectionHandler = self.on_cdata
        parser.EndCdataSectionHandler = self.on_end_of_cdata
        parser.CommentHandler = self.on_comment
        parser.ProcessingInstructionHandler = self.on_instruction

    def add(self, node: Node) -> None:
        node.order = self.count
        self.count += 1
        node.tree = self.tree
        node.place = len(self.tree)
        node.end = node.place + 1
        self.tree.append(node)

    def child(self, type: int, name: str, value: str) -> Node:
        node = Node(type, name, value, self.within)
        self.within.children.append(node)
        self.add(node)
        self.run = None
        return node

    def close(self, node: Node) -> None:
        node.end = len(self.tree)

    def on_declaration(self, version: str | None, encoding: str | None, alone: int) -> None:
        if version not in ("1.0", None) and not (version == "1.1" and _PLAIN.match(self.document)):
            raise ValueError(f"{ERROR} XML {version} is not read here")

    def on_type(self, name: str, file: str | None, public: str | None, inner: bool) -> None:
        if file is not None or public is not None:
            raise ValueError(f"{ERROR} the type of the document is in a file, which is not read")
        self.in_type = True

    def on_end_of_type(self) -> None:
        self.in_type = False

    def on_entity(self, name: str, is_parameter: bool, *_: object) -> None:
        if is_parameter:
            raise ValueError(f"{ERROR} the parameter entity {name} is not read")

    def on_start(self, name: str, attributes: list[str]) -> None:
        element = self.child(ELEMENT, name, "")
        element.own = None
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        for key, value in sorted(pairs, key=lambda pair: pair[0].encode("utf-16-be")):
            if key != "xmlns" and not key.startswith("xmlns:"):
                attribute = Node(ATTRIBUTE, key, value, element)
                attribute.order = self.count
                self.count += 1
                attribute.tree, attribute.place = self.tree, element.place
                element.attributes.append(attribute)
        self.within = element

    def on_end(self, name: str) -> None:
        element = self.within
        self.close(element)
        for attribute in element.attributes:
            attribute.end = element.end
        assert element.parent is not None
        self.within = element.parent
        self.run = None

    def on_text(self, data: str) -> None:
        if self.run is None:
            node = self.child(TEXT, "", "")
            node.is_cdata = True
            self.run = node
            self.is_first = True
        self.run.is_cdata &= self.in_cdata
        self.run.value += data
        if self.is_first:
            self.run.own = self.run.value

    def on_cdata(self) -> None:
        self.in_cdata = True
        if self.run is None:
            self.on_text("")
        else:
            self.is_first = False

    def on_end_of_cdata(self) -> None:
        self.in_cdata = self.is_first = False

    def on_comment(self, data: str) -> None:
        if not self.in_type:
            self.child(COMMENT, "", data)

    def on_instruction(self, target: str, data: str) -> None:
        if self.in_type:
            return
        before = self.within.children[-1] if self.within.children else self.within
        # Java leaves it out behind what is called xml, whatever its own target is.
        if before.name.lower() != "xml":
            self.child(INSTRUCTION, target, data)
