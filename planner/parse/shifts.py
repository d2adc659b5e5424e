"""The operator >>>, of which sqlglot's parsers read >> and stumble over the rest.

It becomes a call of SHIFTRIGHTUNSIGNED, which any engine knows, and keeps its sign as its name in
the text.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

SIGN = ">>>"
_UNSIGNED = "unsigned"


class UnsignedShifts(Parser):
    """A parser that reads >>> where it reads >>."""

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        third, before = self._curr, self._prev
        unsigned = (
            bool(third and before)
            and third.token_type == before.token_type == TokenType.GT
            and third.start == before.end + 1
        )
        if unsigned:
            self._advance()
        term = super()._parse_term(parse_mod)
        if unsigned and term is not None:
            term.meta[_UNSIGNED] = True
        return term

    def _parse_bitwise(self) -> exp.Expr | None:
        return _with_calls(super()._parse_bitwise())


def _with_calls(node: exp.Expr | None) -> exp.Expr | None:
    """The same with >>> as calls, along the left operands."""
    if not isinstance(node, (exp.Binary, exp.DPipe)):
        return node
    left: Any = _with_calls(node.this)
    if left is not node.this:
        node.set("this", left)
    if not (isinstance(node, exp.BitwiseRightShift) and node.expression.meta.get(_UNSIGNED)):
        return node
    call = exp.Anonymous(this="shiftrightunsigned", expressions=[node.this, node.expression])
    call.meta["name"] = SIGN
    return call
