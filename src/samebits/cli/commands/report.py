"""`samebits report`: one offline page for a check, a measurement, a resume or a run."""

from __future__ import annotations

from pathlib import Path

import click

from samebits.base.errors import RecordingError, SamebitsError, StorageError
from samebits.cli import options
from samebits.report.answers import find_answer, read_answer
from samebits.report.experiment import experiment_in
from samebits.report.page import answer_page, run_page
from samebits.runfolder.folder import ANSWER, HOME, Manifest, RunFolder, newest_in, open_run, write_whole
from samebits.runfolder.reading import safe_files


@click.command()
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("samebits.html"), show_default=True, metavar="PAGE"
)
@click.option("--force", is_flag=True, help="Replace PAGE if it exists.")
@click.option("--no-source", is_flag=True, help="Leave out lines of code.")
@click.argument("path", type=click.Path(path_type=Path), metavar="[CHECK|COST|RESUME|RUN]", default=Path(HOME))
def command(path: Path, out: Path, force: bool, no_source: bool) -> None:
    """Write one self-contained HTML page about CHECK, COST, RESUME or RUN; if none is named, about the newest here.

    \b
    samebits report
    samebits report .samebits/20260131-120000-4711 -o page.html
    samebits report --no-source

    The page needs no network. Exit status: 0 written, 2 not.
    """
    if out.exists() and not force:
        raise StorageError(f"{out} exists", "add --force to replace it, or name another file with -o")
    home = newest_in(path)
    try:
        page = _page(home, not no_source)
    except SamebitsError:
        raise
    except Exception as error:  # an answer that was edited can fail here in any way
        raise RecordingError(f"{home} cannot be shown: {type(error).__name__}: {error}", "was it edited?") from error
    write_whole(out, page)
    options.answer(str(out))


def _page(path: Path, sources: bool) -> str:
    if not (path / ANSWER).exists():
        return run_page(open_run(path))
    kind, answer = read_answer(path)
    experiment = experiment_in(path, answer.runs) if kind == "check" else None
    return answer_page(kind, answer, find_answer(kind).told(answer), _manifest(path), experiment, sources)


def _manifest(home: Path) -> Manifest:
    for path in sorted(safe_files(home, "*/manifest.json")):
        try:
            return RunFolder(path.parent).manifest()
        except RecordingError:
            continue
    return {}
