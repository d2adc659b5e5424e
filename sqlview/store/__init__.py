"""State that outlives its process: see STORE.md."""

from sqlview.store.store import DURABILITIES, Store

__all__ = ["DURABILITIES", "Store"]
