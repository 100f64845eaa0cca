"""What code means, as far as it can be read: shapes, names, statements."""
