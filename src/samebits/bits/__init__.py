"""The bits of tensors: digests, and how far two floats are apart."""
