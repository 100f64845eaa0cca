"""What can change the bits of a run whose code did not change: one file per factor, listed in `catalog`."""
