"""The bits of tensors as 64-bit digests."""
