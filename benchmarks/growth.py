"""How time and size of a recording of operations grow with their number, and how fast two of them are compared.

python benchmarks/growth.py
"""

import tempfile
import time
from pathlib import Path

import torch

import samebits
from samebits.comparison.ops import first_op_divergence
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.ops import OpBuffer, OpKind, Ops
from samebits.runfolder.steps import Recording, Writer

KINDS = 300


def written(folder: Path, rows: int, per_step: int, other: int | None = None) -> tuple[Recording, float]:
    """A recording of so many operations, of which number `other` made another result; and the seconds it took."""
    folder.mkdir()
    writer, sheet = Writer(folder, 0), OpBuffer()
    kinds = [sheet.add_kind(OpKind(f"aten::op{i}", ins=("self",), outs=("result",))) for i in range(KINDS)]
    start = time.perf_counter()
    for row in range(rows):
        if sheet.add(kinds[row % KINDS], (row, 2 * row + (row == other))):
            sheet.write(writer)
        if (row + 1) % per_step == 0:
            sheet.end_step()
            sheet.write(writer)
    sheet.write(writer)
    writer.close()
    return Recording(writer.path), time.perf_counter() - start


def print_storage(home: Path) -> None:
    print("operations   per step   write, µs each   bytes each   find the first divergence, ms")
    for rows in (10**2, 10**4, 10**6):
        for per_step in (10**2, 10**4):
            if per_step > rows:
                continue
            a, seconds = written(home / f"a{rows}-{per_step}", rows, per_step)
            b, _ = written(home / f"b{rows}-{per_step}", rows, per_step, other=rows * 3 // 4)
            start = time.perf_counter()
            place = first_op_divergence(a, b)
            found = time.perf_counter() - start
            assert place is not None
            assert place.step * per_step + place.index == rows * 3 // 4
            size = a.path.stat().st_size / rows
            print(f"{rows:>10} {per_step:>10} {seconds / rows * 1e6:>16.2f} {size:>12.1f} {found * 1e3:>20.1f}")


def print_small_operations(home: Path) -> None:
    """Real operations on 64 elements: what recording one costs when there is next to nothing to compute."""
    print("\nsmall operations   plain, µs each   recorded, µs each   bytes each")
    x, y = torch.zeros(64), torch.ones(64)
    with samebits.record(home / "warm", level="op"):
        x.add_(y)
    for count in (10**2, 10**4, 10**5):
        start = time.perf_counter()
        for _ in range(count):
            x.add_(y)
        plain = time.perf_counter() - start
        with samebits.record(home / f"small{count}", level="op"):
            start = time.perf_counter()
            for _ in range(count):
                x.add_(y)
            recorded = time.perf_counter() - start
        (recording,) = RunFolder(home / f"small{count}").recordings()
        assert len(Ops(recording)) == count
        plain, recorded = plain / count * 1e6, recorded / count * 1e6
        print(f"{count:>16} {plain:>16.1f} {recorded:>19.1f} {recording.path.stat().st_size / count:>12.1f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print_storage(Path(folder))
        print_small_operations(Path(folder))


if __name__ == "__main__":
    main()
