"""Random generators: their seed, their state, and the digest of it; one implementation for every library and device.

`handles` lists those of the process, starts any, asks for its state and restores it; `search` finds those that objects
hold; `digests` makes 64 bits of a state, `states` plain data.
"""
