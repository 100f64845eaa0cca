"""A seed is None, or drawn, unless one is given.

Most people run a script as it is. Then nothing is seeded, or each run with another number, and only those who knew of
the option can repeat theirs.

    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)

A number is as good as any other:

    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
"""

from samebits.lint.findings import WEAK
from samebits.lint.rule import Findings, Project, Rule, Source
from samebits.lint.seeds import UNUSED, seed_arguments


@Rule("warning")
def find(project: Project, source: Source) -> Findings:
    """Options and fields for a seed that are None unless given; not parameters, which callers may always give."""
    return (one for one in seed_arguments(project, source) if one.weight > WEAK and not one.reason.endswith(UNUSED))
