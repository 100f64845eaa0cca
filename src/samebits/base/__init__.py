"""The foundation of every other room: errors, seeds, call sites, ranks."""
