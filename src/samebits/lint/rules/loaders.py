"""Loaders, their datasets and their workers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samebits.lint.findings import Finding, Findings
from samebits.lint.libraries import ALL, GENERATORS, SEEDS
from samebits.lint.project import EVALUATION, Project, argument, argument_or_option, class_around, is_true, loop_around
from samebits.lint.rule import rule
from samebits.lint.source import Source, dotted, last_name, walk

_MAKING = {"__init__", "__post_init__"}
_DRAWING = {"__getitem__", "__call__", "__iter__", "forward", "transform"}


@rule("SB301", "error", factors=("data-workers",))
def copied_generator(project: Project, source: Source) -> Findings:
    """A dataset draws from a generator that it made for itself.

    Every worker gets a copy in the same state: with two workers and two epochs, 48 of 64 draws were duplicates, and the
    second epoch repeated the first.

        class Noisy(Dataset):
            def __init__(self):
                self.rng = np.random.default_rng(0)

            def __getitem__(self, index):
                return self.rng.normal(size=3)

        loader = DataLoader(Noisy(), num_workers=2)

    Draw from a generator that belongs to the sample, or from the global ones, which torch seeds in each worker:

        class Noisy(Dataset):
            def __getitem__(self, index):
                return np.random.default_rng([seed, index]).normal(size=3)

        loader = DataLoader(Noisy(), num_workers=2)
    """
    # Generators that the `__init__` of a dataset makes and its other methods use, where workers may copy them.
    for call in source.calls.of(GENERATORS):
        node = next((one for one in source.ancestors(call) if isinstance(one, ast.stmt)), call)
        holder, name = class_around(source, node), dotted(node.targets[0]) if isinstance(node, ast.Assign) else ""
        if holder is None or not name.startswith("self."):
            continue
        function = source.function_of(node)
        uses = [
            mention
            for mention in source.mentions(name)
            if class_around(source, mention) is holder and source.function_of(mention) is not function
        ]
        if getattr(function, "name", "") in _MAKING and uses and _is_in_workers(project, source, holder):
            reason = f"gives every worker a copy of {name} in the same state"
            yield Finding.at(source, node, reason, others=uses)


def _is_in_workers(project: Project, source: Source, holder: ast.ClassDef) -> bool:
    methods = {member.name for member in holder.body if isinstance(member, ast.FunctionDef)}
    is_seeded = project.is_mentioned(project.files_of_scripts(source), "get_worker_info", "worker_init_fn") or any(
        # The workers of our own loader seed every sample.
        argument(call, "worker_init_fn") is not None or file.qualified(call.func).startswith("samebits")
        for file, call in project.loaders(source)
    )
    is_drawing = bool(methods & _DRAWING) and (project.is_dataset(holder) or "__call__" in methods)
    return is_drawing and not is_seeded and project.has_workers(source)


@rule("SB303", "info", fix="unsafe", cure="generator")
def evaluation_draws(project: Project, source: Source) -> Findings:
    """How often is evaluated changes what is trained.

    Each iteration over a loader draws a number from torch's generator, shuffled or not, with workers or without. In a
    script that evaluates every few steps, another interval shifts all that training draws: evaluated after every epoch
    and after every second one, two trainings ended with other weights.

        torch.manual_seed(0)
        val_loader = DataLoader(held_out, batch_size=8)
        for epoch in range(10):
            if epoch % args.eval_every == 0:
                evaluate(model, val_loader)

    With a generator of its own:

        torch.manual_seed(0)
        val_loader = DataLoader(held_out, batch_size=8, generator=torch.Generator().manual_seed(0))
        for epoch in range(10):
            if epoch % args.eval_every == 0:
                evaluate(model, val_loader)
    """
    # Loaders of torch with a name that speaks of evaluation, used every few steps in a script that seeds torch.
    for call in source.calls["torch.utils.data.DataLoader"]:
        parent = source.parents[call]
        name = dotted(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
        has_generator = argument(call, "generator") is not None or any(one.arg is None for one in call.keywords)
        if has_generator or not EVALUATION.fullmatch(name.rpartition(".")[2]) or is_true(argument(call, "shuffle", 2)):
            continue
        seeded = [{"torch", ALL} & project.seeds(entry) for entry in project.entries_of(source)]
        lines = [mention.lineno for mention in source.mentions(name) if _is_now_and_then(source, mention)]
        if lines and seeded and all(seeded):
            reason = f"DataLoader() draws from the generator of training, as often as line {lines[0]} is reached"
            yield Finding.at(source, call, reason)


def _is_now_and_then(source: Source, node: ast.AST) -> bool:
    """Whether a node stands in a loop, below a condition such as `epoch % 5 == 0`."""
    here = source.function_of(node)
    ifs = [outer for outer in source.ancestors(node) if isinstance(outer, ast.If) and source.function_of(outer) is here]
    periodic = [one for one in ifs if any(isinstance(part, ast.Mod) for part in ast.walk(one.test))]
    return any(loop_around(source, one) for one in periodic)


@rule("SB304", "warning", fix="safe", cure="evaluation")
def evaluation_shuffled(project: Project, source: Source) -> Findings:
    """What is evaluated on is shuffled.

    The mean over batches then rounds otherwise in each epoch, and iterating draws from the generator that training
    draws from: evaluating more or less often changes what is trained.

        test_loader = DataLoader(test_data, batch_size=8, shuffle=True)

    In its own order:

        test_loader = DataLoader(test_data, batch_size=8, shuffle=False)
    """
    # Loaders that shuffle, and samplers that shuffle by default, whose name or function speaks of evaluation.
    for call in source.methods.of(["DataLoader", "DistributedSampler"]):
        is_sampler = last_name(call.func) == "DistributedSampler"
        shuffle = argument_or_option(source, call, "shuffle", 3 if is_sampler else 2)
        is_by_default = is_sampler and shuffle is None and all(keyword.arg for keyword in call.keywords)
        if not is_by_default and not is_true(shuffle):
            continue
        parent, function = source.parents[call], source.function_of(call)
        names = [last_name(target) for target in parent.targets] if isinstance(parent, ast.Assign) else []
        names += [function.name] if isinstance(parent, ast.Return) and isinstance(function, ast.FunctionDef) else []
        if any(EVALUATION.fullmatch(name) for name in names):
            yield Finding.at(source, call, f"shuffles {names[0]}, which is evaluated on")


@rule("SB306", "error", factors=("os-entropy", "data-workers"))
def workers_seeded(project: Project, source: Source) -> Findings:
    """Workers are seeded with entropy, or all with one number.

    Torch gives each worker a seed of its own, from the one that was set. A `worker_init_fn` that calls
    `np.random.seed()` throws that away; one with a constant has all workers draw the same, in every epoch.

        def seed_worker(worker):
            np.random.seed(0)

        loader = DataLoader(data, num_workers=2, worker_init_fn=seed_worker)

    From torch's own:

        def seed_worker(worker):
            np.random.seed(torch.initial_seed() % 2**32)

        loader = DataLoader(data, num_workers=2, worker_init_fn=seed_worker)
    """
    # Calls in the function given as `worker_init_fn` that seed with entropy or a constant.
    for call in source.methods.of(["DataLoader", "partial"]):
        function = argument(call, "worker_init_fn")
        if isinstance(function, ast.Lambda):
            yield from _seeds(source, function)
        elif function is not None and (found := project.function(source, last_name(function))):
            yield from _seeds(*found)


def _seeds(source: Source, function: ast.AST) -> Iterator[Finding]:
    for node in walk(function):
        if isinstance(node, ast.Call) and source.qualified(node.func) in SEEDS:
            if not node.args or getattr(node.args[0], "value", 0) is None:
                yield Finding.at(source, node, "seeds each worker with entropy, new in every run")
            elif isinstance(node.args[0], ast.Constant):
                yield Finding.at(source, node, "seeds all workers alike, in every epoch")
