"""Records → text and JSON. Nothing is computed here and nothing is run."""
