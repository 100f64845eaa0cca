"""What can change the bits of a run whose code did not change: a file per factor or kind of it, listed in `catalog`."""
