"""Random generators: their seed, their state, and the digest of it; one implementation for every library and device.

`handles` starts any generator, asks for its state and restores it; `held` finds those that objects hold; `digests`
makes 64 bits of a state.
"""
