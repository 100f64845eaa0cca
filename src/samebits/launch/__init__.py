"""One run of the user's command, from outside: its command line, its processes, its copy of the working folder, its end."""
