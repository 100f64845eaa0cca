"""The run folder: what is in it, read and written without torch."""
