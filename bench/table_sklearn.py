"""Compares `extensor train table` with scikit-learn's MLP on the same rows.

    python bench/table_sklearn.py build/release/cli/extensor [--rows 100000] [--keep DIRECTORY]

Makes a table of 20 columns (14 of numbers, 6 of categories, some values missing) with a target for
classification and one for regression, trains both programs on the first 80 % of the rows with their
defaults, and prints accuracy or R² on the other 20 %. scikit-learn gets the usual preparation:
means for missing numbers, standardization (of the target, too), one-hot categories. Needs numpy and
scikit-learn; OMP_NUM_THREADS=1 makes the latter faster where other programs use the cores.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

NUMBERS, CATEGORIES = 14, 6


def make_rows(count, seed=0):
    """Returns numbers [count, 14], categories [count, 6] as text, classes as text and a target."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(count, NUMBERS)) * np.logspace(-2, 4, NUMBERS)
    z = numbers / np.logspace(-2, 4, NUMBERS)
    codes = np.stack([random.integers(0, 3 + 2 * k, count) for k in range(CATEGORIES)], axis=1)
    effect = sum(random.normal(size=3 + 2 * k)[codes[:, k]] for k in range(CATEGORIES))
    smooth = (np.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + np.abs(z[:, 3]) + 0.5 * z[:, 4:9].sum(1)
              + np.where(codes[:, 0] == 1, z[:, 9], -z[:, 9]) + 0.7 * effect)
    price = 1000 + 250 * (smooth + 0.5 * random.normal(size=count))
    scores = np.stack([smooth, 1.5 * z[:, 5] * z[:, 6] + effect, 2 - z[:, 0] ** 2 + z[:, 7]], axis=1)
    classes = np.array(["low", "middle", "high"])[
        np.argmax(scores + 0.7 * random.gumbel(size=scores.shape), axis=1)]
    numbers[random.random(numbers.shape) < 0.01] = np.nan
    words = np.array([[f"c{code}" for code in row] for row in codes], dtype=object)
    return numbers, words, classes, price


def write(path, header, numbers, words, target):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row, word, goal in zip(numbers, words, target):
            writer.writerow(["" if np.isnan(x) else f"{x:.6g}" for x in row] + list(word) + [goal])


def prepared():
    return ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), slice(0, NUMBERS)),
        ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False),
         slice(NUMBERS, NUMBERS + CATEGORIES))])


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tool", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="write the tables and runs here")
    options = parser.parse_args()
    directory = options.keep or Path(tempfile.mkdtemp())
    directory.mkdir(parents=True, exist_ok=True)
    numbers, words, classes, price = make_rows(options.rows)
    split = options.rows * 8 // 10
    header = [f"n{k}" for k in range(NUMBERS)] + [f"k{k}" for k in range(CATEGORIES)]
    rows = np.concatenate([numbers.astype(object), words], axis=1)
    print(f"{'task':16}{'measure':10}{'extensor':>10}{'sklearn':>10}{'extensor s':>12}{'sklearn s':>11}")
    for task, target, measure, model in [
            ("classification", classes, "accuracy", MLPClassifier(random_state=0)),
            ("regression", price, "r_squared", TransformedTargetRegressor(
                MLPRegressor(random_state=0), transformer=StandardScaler()))]:
        names = {part: directory / f"{task}-{part}.csv" for part in ("train", "test")}
        write(names["train"], header + ["target"], numbers[:split], words[:split], target[:split])
        write(names["test"], header + ["target"], numbers[split:], words[split:], target[split:])
        out = directory / task
        start = time.time()
        run(options.tool, "train", "table", "--data", names["train"], "--target", "target", "--out",
            out, "--overwrite")
        ours = time.time() - start
        result = json.loads(run(options.tool, "eval", out, "--data", names["test"], "--json"))
        start = time.time()
        theirs = make_pipeline(prepared(), model).fit(rows[:split], target[:split])
        seconds = time.time() - start
        score = theirs.score(rows[split:], target[split:])
        print(f"{task:16}{measure:10}{result[measure]:10.4f}{score:10.4f}{ours:12.1f}{seconds:11.1f}",
              flush=True)


if __name__ == "__main__":
    main()
