"""Augmentations of a user's own package; the generator defaults to NumPy's global one."""

import numpy as np


def jitter(signal, scale=0.1, rng=np.random):
    return signal * rng.normal(1.0, scale, size=signal.shape)  # <- numpy-rng


def clip(signal, limit=3.0):
    return np.clip(signal, -limit, limit)
