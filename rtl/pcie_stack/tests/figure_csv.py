# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CSV files of figures."""

import csv
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "build" / "figures"


def write(name, rows):
    """Writes `rows`, dictionaries with the same keys, to build/figures/NAME.csv and returns its path."""
    path = FOLDER / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
