"""What runs inside the user's process: treats factors, hooks torch, writes the recording."""
