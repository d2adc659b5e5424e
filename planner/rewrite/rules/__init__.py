"""Rewrite rules of the logical algebra, one module each.

A rule is `apply(plan) -> Plan`; a rule that finds nothing to do returns the same object. All obey
one law about errors, since under ANSI rules an expression can put a row in error:

    A rewrite may evaluate a failing expression on fewer rows than the query as written does,
    never on a row that the query would have removed first.

The conjuncts of a condition are evaluated in turn, each only where those before it are TRUE.

Hence a predicate that cannot fail (`failing.may_fail` False) moves freely; one that may fail moves
only to where it meets exactly the same rows, or fewer.
"""
