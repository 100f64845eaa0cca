"""One run of the user's command, from outside: command line, processes, streams, signals, outcome."""
