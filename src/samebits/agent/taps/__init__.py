"""One tap for each library, which reports what the library does as events. Taps know neither recorder nor rows."""
