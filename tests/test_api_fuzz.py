"""A small part of the fuzz of the public API; `python -m tests.api_fuzz` makes more of it."""

from __future__ import annotations

from tests.api_fuzz import ODD, Fuzz, public_calls


def test_every_call_with_odd_arguments() -> None:
    outcome = Fuzz(seed=7).run(500)
    assert not outcome.failures, "\n".join(f"{k}\n{v}" for k, v in outcome.failures.items())
    assert outcome.checks == 20
    assert len(outcome.calls) > 35 and len(outcome.odd) > 100


def test_what_is_walked() -> None:
    calls = public_calls()
    methods = ("sql", "apply", "view", "subscribe", "verify", "state", "transaction", "begin")
    assert {"connect", *(f"Session.{m}" for m in methods)} <= calls.keys()
    assert {f"{c}.{m}" for c in ("Transaction", "Transactions") for m in ("insert", "delete")} <= (
        calls.keys()
    )
    assert len(ODD) > 150
