"""State that outlives its process: see STORE.md."""

from sqlview.store.checkpoints import Checkpoint, Snapshot, damaged_files
from sqlview.store.store import DURABILITIES, Store

__all__ = ["DURABILITIES", "Checkpoint", "Snapshot", "Store", "damaged_files"]
