"""Whose import makes a process ready to be forked: all is imported, and kernels are loaded. There
are no threads afterwards."""

from __future__ import annotations

import threading

from tests.store.life import states

states()
assert threading.active_count() == 1
