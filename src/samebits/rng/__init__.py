"""Random generators: their seed, their state, and the digest of it; one implementation for every library and device.

`handles` lists the generators of the process, and seeds, reads and restores any generator; `search` finds the ones that
objects hold; `digests` turns a state into 64 bits, `states` turns it into plain data.
"""
