"""Records → text, JSON and self-contained pages. Nothing is computed here and nothing is run."""
