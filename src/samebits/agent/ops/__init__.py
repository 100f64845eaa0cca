"""The recording at level op: every operation of a window of steps."""
