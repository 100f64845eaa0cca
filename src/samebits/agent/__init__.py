"""What runs inside the user's process: injected at start-up, it treats factors, hooks torch, and writes the recording."""
