"""What every room stands on: errors, seeds, call sites, ranks."""
