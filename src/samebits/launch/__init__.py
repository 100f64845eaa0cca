"""One run of the user's command, from outside: command line, processes, copies of the folder, end."""
