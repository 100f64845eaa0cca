"""What torch has besides the CPU, whatever it is called."""
