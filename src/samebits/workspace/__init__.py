"""Where runs happen: each in a copy of the user's working folder, so that no file of the user's is ever touched."""
