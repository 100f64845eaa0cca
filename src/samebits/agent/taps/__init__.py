"""One tap for each library: what it does, as events. Taps know neither recorder nor rows."""
