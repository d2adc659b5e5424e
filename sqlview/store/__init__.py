"""State that outlives its process: see STORE.md."""

from sqlview.store.backup import backup
from sqlview.store.checkpoints import Checkpoint, Taken
from sqlview.store.places import check_place
from sqlview.store.store import DURABILITIES, Store

__all__ = ["DURABILITIES", "Checkpoint", "Store", "Taken", "backup", "check_place"]
