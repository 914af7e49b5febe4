"""Which gradient boosting the difficulty predictor uses: time and quality of three libraries on solve rates.

    pip install lightgbm scikit-learn xgboost-cpu
    countdown-selfplay solve-rates tiny --problems 3000 --number_high 20 --out train.jsonl
    countdown-selfplay solve-rates tiny --problems 1500 --number_high 20 --seed 5 --out test.jsonl
    python benchmarks/difficulty_libraries.py train.jsonl test.jsonl

One thread. The Brier score is against single answers, whose own noise bounds it from below: compare the libraries with
each other, not with 0.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from countdown_selfplay.countdown import Problem, feature_matrix

TREES, LEAVES, RATE = 100, 15, 0.08


def read(path):
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    problems = [Problem(tuple(row["numbers"]), row["target"]) for row in rows]
    return feature_matrix(problems), np.array([r["correct"] / r["attempts"] for r in rows]), rows[0]["attempts"]


def lightgbm(x, y):
    import lightgbm as library

    options = dict(objective="cross_entropy", num_leaves=LEAVES, learning_rate=RATE, min_data_in_leaf=20)
    options |= dict(num_threads=1, deterministic=True, force_row_wise=True, verbosity=-1)
    model = library.train(options, library.Dataset(x, y), TREES)
    return lambda new: model.predict(new, num_threads=1), len(model.model_to_string())


def xgboost(x, y):
    import xgboost as library

    options = dict(objective="reg:logistic", max_leaves=LEAVES, grow_policy="lossguide", tree_method="hist", eta=RATE)
    model = library.train(options | dict(nthread=1, max_depth=0), library.DMatrix(x, y), TREES)
    return model.inplace_predict, len(model.save_raw())


def sklearn(x, y):
    from sklearn.ensemble import HistGradientBoostingClassifier as Classifier

    twice, label = np.concatenate([x, x]), np.repeat([1, 0], len(x))  # it takes classes only
    weight = np.concatenate([y, 1 - y])
    model = Classifier(max_iter=TREES, max_leaf_nodes=LEAVES, learning_rate=RATE, early_stopping=False)
    model.fit(twice[weight > 0], label[weight > 0], weight[weight > 0])
    import pickle

    return lambda new: model.predict_proba(new)[:, 1], len(pickle.dumps(model))


def auc(p, correct, wrong):
    """Chance that a right answer's problem has the higher estimate than a wrong answer's."""
    order = np.argsort(p, kind="stable")
    _, place = np.unique(p[order], return_inverse=True)
    below = np.concatenate([[0], np.cumsum(np.bincount(place, wrong[order]))])
    same = np.bincount(place, wrong[order])
    rank = below[place] + same[place] / 2
    return float((rank * correct[order]).sum() / (correct.sum() * wrong.sum()))


def main():
    (x, y, _), (new, rate, n) = map(read, sys.argv[1:3])
    for fit in (lightgbm, xgboost, sklearn):
        start = time.perf_counter()
        fit(x[:100], y[:100])
        first = time.perf_counter() - start
        times, fits = [], []
        for _ in range(7):
            start = time.perf_counter()
            predict, size = fit(x, y)
            fits.append(time.perf_counter() - start)
        batch = np.ascontiguousarray(new[:1000])
        for _ in range(30):
            start = time.perf_counter()
            predict(batch)
            times.append(time.perf_counter() - start)
        p = np.asarray(predict(new), dtype=float)
        brier = float(((p - rate) ** 2 + rate * (1 - rate)).mean())
        print(
            f"{fit.__name__:9} import+first {first:.2f} s  fit {min(fits) * 1000:6.1f} ms  1,000 rows "
            f"{min(times) * 1000:5.2f} ms  Brier {brier:.4f}  AUC {auc(p, rate * n, (1 - rate) * n):.3f}  "
            f"{size / 1000:.0f} kB"
        )


if __name__ == "__main__":
    main()
