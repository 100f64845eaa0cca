"""The price of each pin for a script: the script's own steps, with and without the pin, timed in turns."""
