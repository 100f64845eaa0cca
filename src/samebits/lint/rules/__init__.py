"""One file per rule: what is looked for in source code."""
