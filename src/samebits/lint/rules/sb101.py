"""A script trains, and nothing that it runs seeds a generator.

Initial weights, shuffling and dropout are drawn anew in every run, so no two runs agree. Of 185 public training
scripts, 60 held no call that seeds.

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(4)).backward()
    optimizer.step()

Seed once, before the first draw:

    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(4)).backward()
    optimizer.step()
"""

from samebits.lint.project import draws_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("warning", factors=("torch-rng",))
def find(project: Project, source: Source) -> Findings:
    """The first line that draws from torch's generator, in a script that trains and seeds nothing."""
    draws = (draws_in(source, "torch") or project.models_in(source)) if source in project.trains else []
    if draws and not project.seeds(source):
        reason = "draws from torch's generator, which nothing in this script or what it imports seeds"
        yield Finding.at(source, draws[0], reason, others=draws[1:])
