"""The rules, by what they are about. Each is a function, whose docstring is its page in the reference."""
