"""Compares `board experiment` with SciPy and statsmodels. Called by tests/interop/experiment.

The values of runs come from `board list`. Each test is computed from them with the libraries.
"""

import collections
import json
import pathlib
import subprocess
import sys

import experiment_runs
import numpy as np
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

home, board = pathlib.Path(sys.argv[1]), str(pathlib.Path(sys.argv[2]).resolve())
# Results of runs that ended without success.
FAILED = {"failed", "limit", "error"}
checks = 0


def run(*args):
    done = subprocess.run([board, *map(str, args)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def near(what, ours, theirs, tolerance):
    global checks
    checks += 1
    assert abs(ours - theirs) <= tolerance, f"{what}: {ours} isn't {theirs}"


def values(root, side, read):
    """Returns the values of each task's runs."""
    tasks = collections.defaultdict(list)
    for row in run("list", root, f"run:{side}/", "--json")["runs"]:
        value = read(row)
        if value is not None:
            tasks[row["task"]].append(value)
    return tasks


def solved(row):
    return 1.0 if row["result"] == "success" else 0.0 if row["result"] in FAILED else None


def mid_p(differences, exact):
    """The two-sided mid-p-value of sign flips, by SciPy."""
    if not np.any(differences):
        return 1.0
    count = np.inf if exact else 40_000
    found = stats.permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=count, rng=np.random.default_rng(3))
    observed, null = abs(found.statistic), np.abs(found.null_distribution)
    same = np.isclose(null, observed, rtol=1e-9, atol=1e-12)
    return float(np.mean((null > observed) & ~same) + np.mean(same) / 2)


def check_interval(what, y, x, low, high, exact):
    """Values inside the interval aren't rejected, and those outside are."""
    step = 0.02 * (high - low)
    slack = 0.0 if exact else 0.012
    for end, outside in ((low, -step), (high, step)):
        inside_p, outside_p = (mid_p(y - at * x, exact) for at in (end - outside, end + outside))
        global checks
        checks += 2
        assert inside_p >= 0.05 - slack, f"{what}: {end} is inside, but p = {inside_p}"
        assert outside_p < 0.05 + slack, f"{what}: {end} is outside, but p = {outside_p}"


def check_bootstrap(what, a, b, low, high):
    """A bootstrap over tasks gives about the same interval of the ratio."""
    found = stats.bootstrap((a, b), lambda a, b: np.sum(b) / np.sum(a) - 1, paired=True, vectorized=False, n_resamples=4_000, method="BCa", rng=np.random.default_rng(5))
    width = high - low
    near(f"{what}, low end by bootstrap", low, found.confidence_interval.low, 0.25 * width)
    near(f"{what}, high end by bootstrap", high, found.confidence_interval.high, 0.25 * width)


def paired(tasks, runs, seed):
    root = home / f"paired-{tasks}-{runs}-{seed}"
    experiment_runs.make(root, tasks, runs, seed)
    answer = run("experiment", "run:prompt-v1/", "run:prompt-v2/", root, "--json")
    measures = {measure["name"]: measure for measure in answer["measures"]}
    exact, name = tasks <= 13, f"{tasks} tasks, {runs} runs"
    tolerance = 1e-9 if exact else 0.012
    reads = {
        "success": solved, "steps": lambda row: row["steps"], "tokens": lambda row: row["tokens"],
        "cost": lambda row: row["cost_usd"], "time": lambda row: row["duration_ms"],
    }
    for measure, read in reads.items():
        of_a, of_b = values(root, "prompt-v1", read), values(root, "prompt-v2", read)
        shared = sorted(of_a.keys() & of_b.keys())
        a, b = (np.array([np.mean(side[task]) for task in shared]) for side in (of_a, of_b))
        ours, what = measures[measure], f"{name}, {measure}"
        near(what, ours["tasks"], len(shared), 0)
        near(f"{what}, p", ours["p"], mid_p(b - a, exact), tolerance)
        if measure == "success":
            n = len(shared)
            near(f"{what}, difference", ours["difference"], np.sum(b - a), 1e-9)
            check_interval(what, b - a, np.ones(n), ours["low"] / n, ours["high"] / n, exact)
        else:
            near(f"{what}, change", ours["difference"], np.sum(b) / np.sum(a) - 1, 1e-9)
            check_interval(what, b, a, ours["low"] + 1, ours["high"] + 1, exact)
            if tasks >= 40:
                check_bootstrap(what, a, b, ours["low"], ours["high"])
    others = [measure for measure in answer["measures"][1:] if measure["p"] is not None]
    corrected = multipletests([measure["p"] for measure in others], method="holm")[1]
    for measure, theirs in zip(others, corrected):
        near(f"{name}, {measure['name']}, corrected", measure["p_corrected"], theirs, 1e-9)
    if runs == 1:
        of_a, of_b = values(root, "prompt-v1", solved), values(root, "prompt-v2", solved)
        pairs = collections.Counter((of_a[task][0], of_b[task][0]) for task in of_a)
        table = [[pairs[0.0, 0.0], pairs[0.0, 1.0]], [pairs[1.0, 0.0], pairs[1.0, 1.0]]]
        (_, better), (worse, _) = table
        theirs = mcnemar(table, exact=True).pvalue - stats.binom.pmf(better, better + worse, 0.5)
        if better == worse:
            theirs = 1 - stats.binom.pmf(better, better + worse, 0.5) / 2
        near(f"{name}, McNemar", measures["success"]["p"], theirs, tolerance)
    for side, query in (("a", "prompt-v1"), ("b", "prompt-v2")):
        rates = np.array([np.mean(task) for task in values(root, query, solved).values()])
        p, variance = rates.mean(), rates.var()
        n = min(p * (1 - p) * len(rates) / variance, answer[side]["judged"])
        low, high = proportion_confint(p * n, n, method="wilson")
        near(f"{name}, rate of {side}", answer[side]["rate"], p, 1e-9)
        near(f"{name}, low rate of {side}", answer[side]["rate_low"], low, 1e-9)
        near(f"{name}, high rate of {side}", answer[side]["rate_high"], high, 1e-9)


def unpaired(tasks, seed):
    root = home / f"paired-{tasks}-1-{seed}"
    answer = run("experiment", "run:prompt-v1/", "run:prompt-v2/", root, "--by", "nothing", "--json")
    (yes_a, n_a), (yes_b, n_b) = ((answer[side]["solved"], answer[side]["judged"]) for side in "ab")
    ours = answer["measures"][0]
    low, high = confint_proportions_2indep(yes_b, n_b, yes_a, n_a, method="newcomb", compare="diff")
    near("unpaired, low end", ours["low"], low, 1e-9)
    near("unpaired, high end", ours["high"], high, 1e-9)
    p = stats.fisher_exact([[yes_a, n_a - yes_a], [yes_b, n_b - yes_b]]).pvalue
    near("unpaired, Fisher", ours["p"], p, 1e-9)


for tasks, runs, seed in ((12, 1, 1), (13, 3, 2), (48, 3, 26), (40, 1, 4), (48, 2, 7)):
    paired(tasks, runs, seed)
unpaired(12, 1)
unpaired(40, 4)
print(f"{checks} values of `board experiment` are those of SciPy and statsmodels")
