"""The rules, one per file. Its docstring, the page in the reference, says what it looks for and why, with examples."""
