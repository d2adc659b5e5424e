"""Planted mistakes, and the nets that must find each of them.

`python -m tests.mutation` plants them one by one in copies of the sources; `tests.test_mutation`
checks, in the ordinary run of the tests, that each still can be planted.
"""
