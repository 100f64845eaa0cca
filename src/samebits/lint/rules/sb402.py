"""CUBLAS_WORKSPACE_CONFIG has a value that does not make cuBLAS repeat.

NVIDIA names two: `:4096:8` and `:16:8`. With any other, such as `:4096:2`, torch refused to multiply matrices in
deterministic mode until 2.12; later versions do not look.

    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:2"

One of the two:

    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
"""

import ast

from samebits.lint.environment import variables_set
from samebits.lint.rule import Finding, Findings, Project, Rule, Source

_RIGHT = (":4096:8", ":16:8")


@Rule("error", factors=("torch-algorithms",), torch="torch.use_deterministic_algorithms checks it until 2.12")
def find(project: Project, source: Source) -> Findings:
    """Statements that set the variable to a constant other than those two."""
    for name, value, node in variables_set(source):
        text = value.value if name == "CUBLAS_WORKSPACE_CONFIG" and isinstance(value, ast.Constant) else _RIGHT[0]
        if text not in _RIGHT:
            yield Finding.at(source, node, f"sets {name} to {text!r}, which is neither {' nor '.join(_RIGHT)}")
