"""A script as data people write it: imports what a training pulls in, uses each a little, prints what must not move.

Nothing printed depends on the time, on entropy, or on the order of a folder; so it is the same under every treatment.
"""

import abc
import copy
import dataclasses
import datetime
import enum
import functools
import inspect
import io
import json
import logging
import pickle
import sqlite3
import sys
import tempfile
import time
import typing
import uuid
import zoneinfo
from datetime import date
from datetime import datetime as Moment
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pydantic
import scipy.optimize
import scipy.stats
import torch
from PIL import Image
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from tqdm import tqdm

matplotlib.use("Agg")
import matplotlib.dates
import matplotlib.pyplot as plt

LONG_AGO = Moment(2020, 1, 2, 3, 4, 5)


def with_pandas() -> None:
    frame = pd.DataFrame({"when": pd.to_datetime(["2020-01-01", None]), "n": [1, 2]})
    print(frame, frame.when.dt.year.sum(), pd.NaT, pd.isna(pd.NaT), pd.NaT is pd.to_datetime(None))
    print(type(pd.Timestamp.now()).__name__, type(pd.Timestamp("now")).__name__, pd.Timestamp(LONG_AGO))
    print(isinstance(pd.Timestamp(LONG_AGO), Moment), isinstance(pd.NaT, Moment), type(pd.Timestamp.today()).__name__)
    print(type(pd.Timestamp(LONG_AGO).to_pydatetime()) is Moment, pd.Series([LONG_AGO]).dtype, pd.Timestamp.now().tz)
    stamps = pd.date_range(LONG_AGO, periods=3, freq="D", tz="Europe/Berlin")
    print(list(stamps), frame.to_csv(index=False), pickle.loads(pickle.dumps(frame)).equals(frame))
    print(pd.Series([1, 2], index=[LONG_AGO, Moment(2021, 1, 1)]).loc["2020"].sum(), stamps.to_pydatetime()[0])


def with_the_others(folder: Path) -> None:
    data, target = load_iris(return_X_y=True)
    train, _, labels, _ = train_test_split(data, target, random_state=3)
    model = LogisticRegression(max_iter=300).fit(train, labels)
    print(model.classes_, round(float(scipy.stats.norm.cdf(0.3)), 6), scipy.optimize.linprog([1], bounds=[(0, 1)]).x)
    figure, axes = plt.subplots()
    axes.plot([LONG_AGO, LONG_AGO + datetime.timedelta(days=3)], [1, 2])
    figure.savefig(folder / "figure.png")
    print((folder / "figure.png").stat().st_size > 0, matplotlib.dates.num2date(3), matplotlib.dates.date2num(LONG_AGO))
    print(sum(tqdm(range(3), file=io.StringIO())), Image.new("RGB", (2, 2), (1, 2, 3)).getpixel((0, 0)))
    print(np.datetime64(LONG_AGO), np.array([LONG_AGO], dtype="datetime64[s]"), torch.ones(2).sum().item())


class Day(date, enum.Enum):
    FIRST = 2020, 1, 1


class Stamp(Moment):
    def __new__(cls, *args: typing.Any, **kwargs: typing.Any) -> "Stamp":
        return super().__new__(cls, *args, **kwargs)


class Meta(type):
    pass


class Odd(Moment, metaclass=Meta):
    pass


class Abstract(abc.ABC):  # noqa: B024
    pass


@dataclasses.dataclass
class Row:
    when: Moment
    made: Moment = dataclasses.field(default_factory=Moment.now)


class Model(pydantic.BaseModel):
    when: Moment
    day: date
    made: datetime.datetime = pydantic.Field(default_factory=datetime.datetime.now)


def with_classes() -> None:
    Abstract.register(Moment)
    now = Moment.now()
    print(type(now) is Moment, type(now) is datetime.datetime, isinstance(now, Abstract), Day.FIRST, Day.FIRST.year)
    print(type(Stamp.now()) is Stamp, type(Odd.now()) is Odd, type(Stamp.utcfromtimestamp(0)) is Stamp, Moment.__mro__)
    print(Row(LONG_AGO).when, typing.get_type_hints(Row), Model(when="2020-01-02T03:04:05", day="2020-01-02").when)
    print(copy.deepcopy(LONG_AGO), pickle.dumps(LONG_AGO), pickle.loads(pickle.dumps([Moment, Moment.now]))[0])
    print({Moment: "moment", date: "day"}[type(now)], issubclass(Moment, date), Moment.strptime("2020", "%Y"))
    print(inspect.isclass(Moment), list(inspect.signature(Moment.now).parameters), Moment.min, Moment.max)
    made = [Moment.today(), Moment.combine(date(2020, 1, 1), datetime.time(3)), now + datetime.timedelta(1)]
    print({type(one) for one in made}, type(now.date()), type(Moment.now(datetime.timezone.utc).astimezone()))
    print(isinstance(now, Stamp), issubclass(Stamp, date), issubclass(Moment, Stamp), Stamp != Moment)
    values = [LONG_AGO, date(2020, 1, 2), LONG_AGO.astimezone(datetime.timezone.utc), Moment(2020, 10, 25, fold=1)]
    print([pickle.dumps(values, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)])
    print(copy.deepcopy(values), [one.fold for one in pickle.loads(pickle.dumps(values[3:]))], copy.copy(LONG_AGO))
    print(
        Moment.now.__name__,
        Moment.now.__qualname__,
        Moment.now() <= Moment.now(zoneinfo.ZoneInfo("UTC")).replace(tzinfo=None) + datetime.timedelta(days=2),
        Moment.now(datetime.timezone.utc).tzinfo,
    )

    @functools.singledispatch
    def name(value: object) -> str:
        return "object"

    name.register(Moment, lambda value: "moment")
    match now:
        case datetime.datetime(hour=hour):
            print(name(now), 0 <= hour < 24)


def with_the_standard_library() -> None:
    print(
        sqlite3.connect(":memory:").execute("select 3").fetchone(), json.dumps(3), uuid.UUID(int=3), callable(time.time)
    )
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.getLogger("packages").addHandler(handler)
    logging.getLogger("packages").warning("told")
    print(stream.getvalue()[24:].strip(), repr(time.time), repr(Moment), functools.partial(time.time)() > 0)


if __name__ == "__main__":
    with_pandas()
    with tempfile.TemporaryDirectory() as made:
        with_the_others(Path(made))
    with_classes()
    with_the_standard_library()
    sys.exit(3)
