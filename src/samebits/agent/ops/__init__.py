"""Level op: every operation of a window of steps."""
