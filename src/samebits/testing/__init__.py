"""Tests that have to repeat: recording and comparing calls, seeds, isolated processes, expected bits."""
