"""One file per command: its name is the command's, the first line of its docstring the help of `samebits --help`."""
