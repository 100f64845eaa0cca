"""What can be read off source code alone, without running it. No torch here."""
