"""Five nets as people write them, each a script of its own that samebits runs: `samebits run tests/ops/nets/NAME.py`.

Every one of them calls what deterministic algorithms refuse on a GPU, or compute by slow pieces.
"""
