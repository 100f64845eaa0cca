"""The versions that are promised, proved: a short suite with old and new Pythons and torches.

    nox                    # all of them; each installs torch anew, some GB with its CUDA libraries, and runs on a CPU
    nox -s 'versions(python="3.10", torch="2.6.0")'

What ran, and how it ended, stands in docs/reference/versions.md.
"""

import nox

# The oldest and the newest of both, and what most people have in between.
PAIRS = [("3.10", "2.6.0"), ("3.11", "2.9.1"), ("3.12", "2.13.0"), ("3.13", "2.15.0")]
# Bits, hooks and treatments are where versions differ; how answers look is not.
SUITE = (
    *("tests/base", "tests/bits", "tests/rng", "tests/runfolder", "tests/factors", "tests/agent", "tests/comparison"),
    *("tests/data/test_loader.py", "tests/quality/ops", "tests/observer", "tests/test_api.py", "tests/launch"),
    "tests/state",
)

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=False)
@nox.parametrize(("python", "torch"), PAIRS)
def versions(session: nox.Session, python: str, torch: str) -> None:
    """The short suite, and one check of each kind."""
    folder = f"build/versions/{python}-{torch}"
    session.run(f"python{python}", "-m", "venv", folder, external=True)
    inside = {"PATH": f"{session.invoked_from}/{folder}/bin:{session.env.get('PATH', '/usr/bin:/bin')}"}
    packages = (f"torch=={torch}", "pytest", "pytest-xdist", "hypothesis", "jsonschema", "safetensors")
    session.run("pip", "install", "--quiet", "--editable", ".[examples]", *packages, env=inside, external=True)
    session.run("pytest", "-n", "auto", "--dist", "worksteal", *SUITE, *session.posargs, env=inside, external=True)
    session.run("samebits", "check", "examples/digits.py", env=inside, external=True)
    session.run(*("samebits", "check", "examples/digits_unseeded.py"), env=inside, external=True, success_codes=[1])
    session.run(
        *("samebits", "check", "--level", "op", "--vary", "cpu-threads", "examples/digits.py"),
        env=inside,
        external=True,
        success_codes=[1],
    )
