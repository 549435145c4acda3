#!/usr/bin/env python3
"""Writes list.tsv, the built-in price list, from the price lists in the Python package litellm.

    pip download --no-deps litellm
    pip download --no-deps litellm==1.80.0
    pip download --no-deps litellm==1.70.0
    python3 src/model/price/list.py YYYY-MM-DD litellm-NEWEST.whl litellm-1.80.0*.whl litellm-1.70.0*.whl > src/model/price/list.tsv

The date is the day on which the newest package was downloaded. It drops models that their vendors no longer serve. Old
traces name them, so the models of Anthropic and OpenAI that it lacks have the prices of the older packages. Other vendors'
old prices have mistakes, so these are left out. The older packages also have mistakes in the prices of cache writes kept
for 1 hour. Anthropic charges twice the price of input for them, so that's computed. Only facts are taken: names, prices
and context windows of chat models. A line is a model: name, then US dollars per million tokens of input, output, cache reads, cache writes kept for
5 minutes and for 1 hour, then the context window in tokens, then tiers. Empty columns aren't listed. A tier
is LIMIT:INPUT/OUTPUT/READ/WRITE/WRITE_1H and applies to requests with more than LIMIT input tokens.
"""
import json
import re
import sys
import zipfile
from decimal import Decimal

# The vendors of models. A vendor's model is also listed by its bare name, unless that's a name of its own.
VENDORS = ["anthropic", "openai", "gemini", "xai", "deepseek", "dashscope", "moonshot", "zai", "mistral", "minimax"]
KINDS = [
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
]


def usd(price):
    """Formats a price per token as one per million tokens."""
    if price is None:
        return ""
    text = f"{Decimal(price) * 1_000_000:.6f}"
    return text.rstrip("0").rstrip(".")


def tiers(model):
    """Returns the tiers of a model, the lowest limit first."""
    found = {}
    for key in model:
        match = re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key)
        if match:
            suffix = f"_above_{match[1]}k_tokens"
            found[int(match[1]) * 1000] = [model.get(kind + suffix) for kind in KINDS]
    for tier in model.get("tiered_pricing") or []:
        if tier.get("range", [0])[0] > 0:
            found[int(tier["range"][0])] = [tier.get(kind) for kind in KINDS]
    return ",".join(f"{limit}:" + "/".join(map(usd, found[limit])) for limit in sorted(found))


def row(model):
    """Returns the columns after the name, or None if the model has no price per token."""
    base = model
    if not model.get("input_cost_per_token") and model.get("tiered_pricing"):
        base = model["tiered_pricing"][0]
    prices = [base.get(kind) for kind in KINDS]
    if None in prices[:2] or not any(prices[:2]) or any(price and price < 0 for price in prices):
        return None
    window = model.get("max_input_tokens")
    return [*map(usd, prices), str(window) if isinstance(window, int) and window > 0 else "", tiers(model)]


def with_1h(model):
    """Returns an old model whose cache writes kept for 1 hour cost twice as much as input, if Anthropic caches it."""
    model = {key: value for key, value in model.items() if "above_1hr" not in key}
    if model["litellm_provider"] == "anthropic":
        for key in [key for key, price in model.items() if key.startswith(KINDS[3]) and price]:
            suffix = key.removeprefix(KINDS[3])
            if model.get(KINDS[0] + suffix):
                model[KINDS[4] + suffix] = 2 * model[KINDS[0] + suffix]
    return model


def listed(wheel, is_old):
    """Returns the columns of each model in the list of a package."""
    with zipfile.ZipFile(wheel) as files:
        name = "litellm/model_prices_and_context_window_backup.json"
        models = json.loads(files.read(name), parse_float=Decimal)
    rows = {}
    for name, model in models.items():
        if is_old:
            if model.get("litellm_provider") not in ("anthropic", "openai"):
                continue
            model = with_1h(model)
        columns = row(model) if model.get("mode") in ("chat", "responses", "completion") else None
        if columns and re.fullmatch(r"[!-~]+", name):
            rows[name.lower()] = columns
    return rows


def main(date, *wheels):
    rows = {}
    for at, wheel in enumerate(wheels):
        for name, columns in listed(wheel, at > 0).items():
            rows.setdefault(name, columns)
    versions = [re.search(r"litellm-([0-9.]+)-", wheel)[1] for wheel in wheels]
    for vendor in VENDORS:
        for name, columns in list(rows.items()):
            if name.startswith(vendor + "/"):
                rows.setdefault(name.removeprefix(vendor + "/"), columns)
    print(f"# {date}\tlitellm {', '.join(versions)}")
    for name in sorted(rows):
        print("\t".join([name, *rows[name]]))


main(*sys.argv[1:])
