import hashlib

import torch


class Pending:
    def __init__(self, r):
        self.r = r

    def result(self):
        return self.r


def is_evidence(t):
    return t.device.type != "meta"


def digests(ts):
    out = []
    for t in ts:
        t = t.detach()
        raw = t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
        out.append(
            int.from_bytes(
                hashlib.blake2b(raw + repr((t.dtype, tuple(t.shape))).encode(), digest_size=8).digest(), "little"
            )
        )
    return out


def pending(ts):
    return Pending(digests(ts))
