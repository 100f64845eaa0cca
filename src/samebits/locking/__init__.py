"""`samebits lock` and `samebits verify`: expected bits in a file, held against later runs."""
