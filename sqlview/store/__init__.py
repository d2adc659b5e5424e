"""State that outlives its process: see STORE.md."""

from sqlview.store.checkpoints import Checkpoint, Taken, damaged_files
from sqlview.store.store import DURABILITIES, Store

__all__ = ["DURABILITIES", "Checkpoint", "Store", "Taken", "damaged_files"]
