"""One file per command: it has the command's name, and its docstring's first line is the help in `samebits --help`."""
