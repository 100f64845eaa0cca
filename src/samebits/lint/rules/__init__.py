"""The rules, one a file: what it looks for, why, bad and good code; its page in the reference is its docstring."""
