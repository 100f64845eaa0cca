"""PYTHONHASHSEED is set in the process that it should hold still.

Python reads it once, when it starts. Six runs of a script that set it in its first line iterated over sets in six
orders.

    os.environ["PYTHONHASHSEED"] = "0"
    names = list({"cat", "dog"})

Start the script with it, or with `samebits run`; or do not depend on the order of sets:

    names = sorted({"cat", "dog"})
"""

from samebits.lint.environment import variables_set
from samebits.lint.rule import Finding, Findings, Project, Rule, Source

_STARTS = {"Popen", "subprocess", "spawn", "Process", "launch"}
_STARTS |= {"execv", "execve", "execl", "execle", "execvp", "execvpe"}


@Rule("error")
def find(project: Project, source: Source) -> Findings:
    """Statements that set PYTHONHASHSEED in a file that starts no further process which would read it."""
    for name, _, node in variables_set(source):
        if name == "PYTHONHASHSEED" and not project.is_mentioned([source], *_STARTS):
            yield Finding.at(source, node, "sets PYTHONHASHSEED, which Python has read before")
