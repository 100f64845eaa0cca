"""Adapters for other libraries: one file for each, loaded only when it is imported, with no logic of its own."""
