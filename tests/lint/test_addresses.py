"""Which lines let addresses in: sets of parameters and modules that are put in order, `id()` that orders."""

from pathlib import Path

import pytest

from samebits.lint.findings import ADDRESS, SEED
from samebits.lint.hash_order import find_hash_order

BOTH = {ADDRESS, SEED}
GUILTY = {
    "list(set(net.parameters()))": {ADDRESS},
    "list(set(net.parameters()) | set(head.parameters()))": {ADDRESS},
    "[p.norm() for p in {*net.parameters()}]": {ADDRESS},
    "torch.nn.utils.clip_grad_norm_(set(net.parameters()), 1.0)": {ADDRESS},
    "for module in set(net.modules()): module.reset_parameters()": {ADDRESS},
    "[name for name, child in set(net.named_children())]": BOTH,
    "sorted(net.parameters(), key=id)": {ADDRESS},
    "min(layers, key=lambda layer: id(layer))": {ADDRESS},
    "sorted(layers, key=lambda layer: (layer.depth, id(layer)))": {ADDRESS},
    "heapq.heappush(layers, (len(layers), id(net), net))": {ADDRESS},
    "first = net if id(net) < id(head) else head": {ADDRESS},
    "random.seed(id(net))": {ADDRESS},
    "offset = id(net) % 7": {ADDRESS},
    "list({id(p) for p in net.parameters()})": {ADDRESS},
    "list(set(things))": BOTH,
    "import weakref; list(weakref.WeakSet(net.modules()))": {ADDRESS},
    "list({'cat', 'dog'})": {SEED},
    "import asyncio\nasync def f(tasks): done, _ = await asyncio.wait(tasks); return [one.result() for one in done]": {
        ADDRESS
    },
    "from concurrent.futures import wait; done, left = wait(jobs); first = list(done)": {ADDRESS},
    "torch.manual_seed(hash(net) % 100)": BOTH,
    "[hash(p) for p in net.parameters()]": {ADDRESS},
}
CLEAN = (
    "print(len(set(net.parameters())))",
    "frozen = set(net.parameters()); rest = [p for p in head.parameters() if p not in frozen]",
    "seen = {id(p) for p in net.parameters()}; known = id(head) in seen",
    "memo[id(net)] = net",
    "heapq.heappush(layers, (len(layers), net.depth, net))",
    "is_same = id(net) == id(head)",
    "list(dict.fromkeys(net.parameters()))",
    "total = sum(p.numel() for p in net.parameters())",
    "sorted(names, key=len)",
    "list({3, 4})",
    "from concurrent.futures import wait; done, _ = wait(jobs); rows = [one.result() for one in jobs if one in done]",
    "from concurrent.futures import wait\nfor one in wait(jobs)[1]: one.cancel()",
    "code = process.wait(); event.wait(3) or list(jobs)",
)


@pytest.mark.parametrize("line", GUILTY)
def test_a_guilty_line_says_what_it_depends_on(line: str, tmp_path: Path) -> None:
    """Addresses, the hash seed, or either where reading cannot tell what the members are."""
    path = tmp_path / "line.py"
    path.write_text(f"{line}\n", encoding="utf-8")
    (found,) = find_hash_order([path])

    assert found.depends_on == GUILTY[line]


@pytest.mark.parametrize("line", CLEAN)
def test_what_orders_nothing_is_passed_by(line: str, tmp_path: Path) -> None:
    """Membership, counting, memories of what was seen, and what keeps an order of its own."""
    path = tmp_path / "line.py"
    path.write_text(f"{line}\n", encoding="utf-8")

    assert find_hash_order([path]) == []
