"""Tests that have to repeat: calls recorded and compared, seeds, processes of their own, expected bits."""
