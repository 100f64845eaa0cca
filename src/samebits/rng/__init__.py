"""The state of every generator there is."""
