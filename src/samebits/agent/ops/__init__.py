"""Level op: every operation of a window of steps. `table` is read without torch, the rest beside the user's code."""
