"""The version of samebits; it stands here alone, and imports nothing."""

__version__ = "0.1.0"
