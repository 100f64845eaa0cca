"""What two runs have made: which files belong together, and which of their leaves differ."""

from base64 import urlsafe_b64encode
from io import StringIO
from pathlib import Path
from uuid import UUID

import numpy
import pytest

from samebits.comparison.contents import MOST_LEAVES, Content, content_of, text_content
from samebits.comparison.products import (
    FOLDER_NAME,
    MESSAGES,
    NAME,
    PRINTED,
    Leaves,
    Products,
    differing_beyond_ids,
    differing_leaves,
    paired,
    read_products,
)


def lines(text: str) -> Content:
    return text_content(StringIO(text))


def test_a_folder_named_after_the_time_belongs_to_the_other_one() -> None:
    """By what is left over in a folder, level by level; what has no counterpart is alone."""
    a = ["/p/log", "/p/runs/10-31/last.pt", "/p/runs/10-31/x/args", "/p/only"]
    b = ["/p/log", "/p/runs/10-32/last.pt", "/p/runs/10-32/x/args"]

    assert paired(*(dict.fromkeys(paths, lines("")) for paths in (a, b))) == [
        ("/p/log", "/p/log", "/p/log"),
        ("/p/only", "/p/only", ""),
        ("/p/runs/*/last.pt", "/p/runs/10-31/last.pt", "/p/runs/10-32/last.pt"),
        ("/p/runs/*/x/args", "/p/runs/10-31/x/args", "/p/runs/10-32/x/args"),
    ]

    # Of files elsewhere nothing is said twice because a file of the project is alone.
    one = {"/p/log": lines("")}
    assert paired(one | {"only": lines("")}, one) == [("/p/log", "/p/log", "/p/log"), ("only", "only", "")]


def test_a_name_is_a_leaf_too() -> None:
    """Of a file and of a folder, once; files of one content belong together, however they are named."""
    a = Products({"/p/acc_0.91.pt": lines("w"), "/p/10-31/log": lines("x"), "/p/10-31/log2": lines("x")})
    b = Products({"/p/acc_0.87.pt": lines("w"), "/p/10-32/log": lines("x"), "/p/10-32/log2": lines("x")})
    ids = [
        Products({f"/p/{id}": lines(text) for id, text in one})
        for one in ((("1a", "t"), ("7b", "u")), (("3d", "u"), ("9c", "t")))
    ]

    assert [(one.key, one.path, one.a, one.b) for one in differing_leaves(a, b)] == [
        (("/p/*", FOLDER_NAME), "/p/10-31", "10-31", "10-32"),
        (("/p/*.pt", NAME), "/p/acc_0.91.pt", "acc_0.91.pt", "acc_0.87.pt"),
    ]
    assert [(one.key, one.a, one.b) for one in differing_leaves(*ids)] == [
        (("/p/*", NAME), "1a", "9c"),
        (("/p/*", NAME), "7b", "3d"),
    ]


def test_a_leaf_is_found_whatever_its_file_is_called_in_two_runs() -> None:
    """In runs with the clock held, a folder has one name; a line is found by each of its words, and as a whole."""
    leaves = Leaves([("/p/*/log", "line 1, word 2"), ("/p/x", ".acc"), ("/p/y", "line 7")])

    assert ("/p/10-31/log", "line 1, word 2") in leaves
    assert ("/p/*/log", "line 1") in leaves
    assert ("/p/*", ".acc") in leaves
    assert ("/p/y", "line 7, word 1") in leaves
    assert [("/p/a.pt", NAME) in Leaves([(file, NAME)]) for file in ("/p/*.pt", "/p/*.json", "/p/*", "/q/*.pt")] == [
        True,
        False,
        True,
        False,
    ]
    assert not any(
        key in leaves
        for key in [
            ("/p/10-31/log", "line 1, word 3"),
            ("/p/10-31/x/log", "line 1"),
            ("/p/z", ".acc"),
            ("/p/y", "line 71"),
        ]
    )


def test_nothing_is_a_time_by_its_name_or_its_size(tmp_path: Path) -> None:
    """Predicted durations and half of all seeds look like one."""
    made = []
    for run, seed in enumerate((1_500_000_000, 1_500_000_001)):
        files = {"pred_duration.npy": tmp_path / f"{run}.npy", "timestamp.txt": tmp_path / f"{run}.txt"}
        numpy.save(files["pred_duration.npy"], numpy.array([0.5, seed]))
        files["timestamp.txt"].write_text(f"seed {seed}\n")
        made.append(read_products(files, tmp_path / "none", [], str, False, frozenset()))

    assert {one.path for one in differing_leaves(*made)} == {"pred_duration.npy", "timestamp.txt"}


def test_only_the_words_of_a_line_that_differ_count() -> None:
    """A loss beside a duration is a leaf of its own."""
    a, b = (Products({"log": lines(f"loss {loss} in {seconds} s")}) for loss, seconds in ((1, 2), (1, 3)))

    assert [one.key for one in differing_leaves(a, b)] == [("log", "line 1, word 4")]


def test_what_was_printed_counts_where_nothing_was_written() -> None:
    """And only there."""
    one, other = lines("0.91"), lines("0.93")

    for name in (PRINTED, MESSAGES):
        a, b = {name: one}, {name: other}
        assert [one.key for one in differing_leaves(Products({}, a), Products({}, b))] == [(name, "line 1")]
        assert differing_leaves(Products({"x": {}}, a), Products({"x": {}}, b)) == []


@pytest.mark.parametrize("is_cut", [False, True])
def test_the_end_of_a_very_long_output_counts(is_cut: bool, tmp_path: Path) -> None:
    """Lines beyond those compared one by one count together; a run that was ended may lack them."""
    steps, runs = "step\n" * MOST_LEAVES, []
    for name, last in (("a", "0.91"), ("b", "0.91\n\n"), ("c", "0.93"), ("longer", "0.91\n0.91")):
        (tmp_path / name).write_text(f"{steps}{last}\n")
        runs.append(read_products({}, tmp_path / name, [], str, is_cut, frozenset()))
    differing = [[leaf.key[1] for leaf in differing_leaves(runs[0], run)] for run in runs[1:]]
    later = [] if is_cut else [f"line {MOST_LEAVES} and later"]

    assert differing == [[], later, later]
    (tmp_path / "c").write_text(f"{steps[:45]}loss\n{steps}")
    (first, *_) = differing_leaves(runs[0], read_products({}, tmp_path / "c", [], str, is_cut, frozenset()))
    assert first.key == (PRINTED, "line 10")


def test_a_line_counts_as_a_terminal_shows_it(tmp_path: Path) -> None:
    """What was printed after a carriage return replaces what it covers, and no more; a file keeps what was written."""
    for name, text in {
        "a": "1%\r22%\r100%\r\n\nloss\r\r\n 1\r 2\n\n\n",
        "b": "1%\rdone\n",
        "c": "loss 0.31\rdone\n",
    }.items():
        (tmp_path / name).write_bytes(text.encode())
    shown, short, long = (
        read_products({}, tmp_path / name, [], str, False, frozenset()).printed[PRINTED] for name in "abc"
    )

    assert [*shown.values()] == ["100%", "", "loss", " 2"]
    assert (short, long) == ({"line 1": "done"}, {"line 1": "done 0.31"})
    assert content_of(tmp_path / "c") == {"line 1": "loss 0.31\rdone"}
    assert lines("\n\n") == lines("") == {}


def test_a_run_that_was_ended_may_lack_the_last_lines() -> None:
    """What had not been written out yet is no difference; what had been is."""
    long, short, wrong = (lines(text) for text in ("a\nb\nc\nd", "a\nb\nc", "a\nx\nc"))

    assert differing_leaves(Products({"log": long}, is_cut=True), Products({"log": short})) == []
    assert len(differing_leaves(Products({"log": long}, is_cut=True), Products({"log": wrong}))) == 1
    assert len(differing_leaves(Products({"log": long}), Products({"log": short}))) == 1


def test_the_number_of_a_process_is_no_content() -> None:
    """Where either run names its own; not where both name the same number, or one names another's."""
    a, b = (Products({"log": lines(f"{pid} loss 0.5 at 7")}, ids=frozenset({pid})) for pid in ("4711", "12"))
    other = Products({"log": lines("12 loss 0.5 at 4711")}, ids=frozenset({"12"}))

    assert differing_leaves(a, b) == []
    assert [one.key for one in differing_leaves(b, other)] == [("log", "line 1, word 5")]


@pytest.mark.parametrize(
    ("name", "is_id"),
    [
        ("{0.hex}", True),
        ("{0}", True),
        ("run-{1}.log", True),
        ("{2}", True),
        ("seed {3}", False),
        ("{1}5", True),
        ("0.{1}", True),
        ("20261129-173120-{1:.4}", True),
        ("{1:.5}", True),
        ("{1:.3}", False),
    ],
)
def test_what_quotes_random_bytes_names_a_run(name: str, is_id: bool) -> None:
    """A uuid, a part of one, a token; not a number made of them, nor another run's name."""
    runs = []
    for drawn in (bytes(range(100, 116)), bytes(range(150, 166))):
        token, number = urlsafe_b64encode(drawn).decode().rstrip("="), int.from_bytes(drawn)
        made = name.format(UUID(bytes=drawn, version=4), drawn.hex()[:8], token, number)
        runs.append(Products({"log": lines(f"{made} loss 0.5")}, ids=frozenset({drawn[:2].hex(), drawn[:3].hex()})))
    a, b = runs

    assert bool(differing_leaves(a, b)) is not is_id
    assert bool(differing_beyond_ids(a, Products(b.files))) is not is_id, "of the other one nobody has heard"
    assert differing_leaves(a, Products(b.files))
    assert differing_leaves(Products({"log": lines("0.25 loss 0.5")}, ids=a.ids), b)


def test_a_number_beside_an_id_is_no_part_of_it() -> None:
    """Of a run that nobody has heard, too: all but the id has to be the same."""
    heard = Products({"log": lines("run 646566aa-0.5")}, ids=frozenset({"646566"}))
    for other, is_alike in (("run 96979899-0.5", True), ("run 96979899-0.25", False), ("run 96979899", False)):
        assert bool(differing_beyond_ids(heard, Products({"log": lines(other)}))) is not is_alike


def test_a_bar_on_standard_error_is_no_message(tmp_path: Path) -> None:
    """It is drawn over and over, at moments that the clock decides; logs and plain lines count."""
    (tmp_path / "messages.log").write_bytes(b"INFO acc 0.91\n\r 10%|#\r100%|##| 9.1it/s\n\rdone\r\nlast\r\n")

    found = read_products({}, tmp_path / "none", [tmp_path / "messages.log"], str, False, frozenset())

    assert [*found.printed[MESSAGES].values()] == ["INFO acc 0.91", "last"]


def test_a_leaf_of_a_log_is_told_apart() -> None:
    """Of a text that grew in either run, whatever its name; not of other content, nor a name of a folder with more."""
    a = {"/p/10-31/log": lines("x 1"), "/p/10-31/last": lines("y"), "/q/a.log": lines("z"), "/q/t": {"weight": "1"}}
    b = {"/p/10-32/log": lines("x 2"), "/p/10-32/last": lines("y"), "/q/b.log": lines("w"), "/q/t": {"weight": "2"}}
    one = Products(a, logs=frozenset({"/p/10-31/log", "/q/t"}))
    other = Products(b, logs=frozenset({"/q/b.log"}))

    found = {leaf.key: leaf.in_log for leaf in differing_leaves(one, other)}
    assert found == {
        ("/p/*/log", "line 1, word 2"): True,
        ("/p/*", FOLDER_NAME): False,
        ("/q/*.log", "line 1"): True,
        ("/q/*.log", NAME): True,
        ("/q/t", "weight"): False,
    }
