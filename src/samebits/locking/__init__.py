"""`samebits lock` and `samebits verify`: expected bits in a file, compared with later runs."""
