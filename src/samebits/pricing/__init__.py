"""What each pin costs a script: its own steps, with and without, in turns."""
