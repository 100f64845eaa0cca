"""One recorded operation, called again and again."""
