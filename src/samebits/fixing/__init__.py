"""What can be mended in source code is mended there: edits by position, and every other byte stays as it is."""
