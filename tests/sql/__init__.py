"""SQL semantics, view by view and epoch by epoch, against the oracle."""
