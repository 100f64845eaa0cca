"""A seed option is declared, and nothing reads it.

Whoever passes `--seed 1` believes that the run repeats, and it does not: two runs with one seed differ as two without.

    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    train(args.lr)

Seed with it, before anything is drawn:

    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    train(args.lr)
"""

import re

from samebits.lint.findings import WEAK
from samebits.lint.rule import Findings, Project, Rule, Source
from samebits.lint.seeds import UNUSED, seed_arguments


@Rule("error")
def find(project: Project, source: Source) -> Findings:
    """Options and fields for a seed that nothing reads; of parameters, those whose default is a number."""
    for finding in seed_arguments(project, source):
        if finding.reason.endswith(UNUSED) and (finding.weight > WEAK or _NUMBER.search(finding.source)):
            yield finding


_NUMBER = re.compile(r"seed[\w: ]*=\s*\d+")
