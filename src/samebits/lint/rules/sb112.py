"""The name of an environment variable is misspelt.

What nobody reads has no effect, and nobody says so: `PYTHONASHSEED=0` leaves the order of sets as it was.

    os.environ["CUBLAS_WORKSPACE_CONFG"] = ":4096:8"

As it is called:

    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
"""

from samebits.lint.environment import closest_variable, variables_set
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("warning", fix="safe", cure="misspelt")
def find(project: Project, source: Source) -> Findings:
    """Statements that set a variable whose name is nearly that of a known one."""
    for name, _, node in variables_set(source):
        if right_name := closest_variable(name):
            yield Finding.at(source, node, f"sets {name}, which nothing reads: it is called {right_name}")
