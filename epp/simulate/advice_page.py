"""The adviser's page: Markdown, JSON and HTML."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from epp.simulate.advise import Advice
from epp.simulate.fleet import Offload
from epp.simulate.html import plot

__all__ = ["as_html", "as_json", "as_markdown"]

_GATE: Final = (
    "Gate: watch the share of KV blocks in use (`vllm:kv_cache_usage_perc`) over 24 hours, and alert where "
    "its P99 is above 92 %. Below, nothing that is needed is evicted, and the advice stands."
)

Chart = Mapping[Offload, Sequence[tuple[float, float]]]


def as_markdown(advice: Advice, chart: Chart, settings: Sequence[str]) -> str:
    """One page. `chart` is by tier (reuse ratio, gain)."""
    reuse = advice.reuse
    against = "the best tier" if advice.choice is Offload.NONE else "no tier"
    lines = [
        f"# KV offload: {advice.choice.value}",
        "",
        f"With the configuration `{advice.policy}`; margin and confidence:",
        f"{advice.margin:+.1%} of the mean end-to-end time against {against}; {advice.confidence}.",
        f"With the current configuration, `{advice.current_policy}`: **{advice.current_choice.value}**.",
        "",
        f"Reusable prompt KV: {reuse.tokens:,} tokens, R = {reuse.ratio:.2f} of the fleet's GPU tiers.",
        f"An infinite cache would hit {reuse.share:.1%} of the tokens of {reuse.requests:,} prompts,",
        f"which have {reuse.mean_prompt_tokens:,.0f} tokens in the mean.",
        "",
        "| configuration | offload | TTFT s | P90 s | end to end s | tokens/s | GPU hit | CPU hit | gain |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {o.policy} | {o.offload} | {o.ttft_mean_s:.2f} | {o.ttft_p90_s:.2f} | {o.e2e_mean_s:.2f} | "
            f"{o.throughput_tok_s:,.0f} | {o.gpu_hit_share:.0%} | {o.cpu_hit_share:.0%} | {o.gain:+.1%} |"
            for o in advice.options
        ),
        "",
        *(f"Refused: {', '.join(r.offloads)}: {r.reason}." for r in advice.refusals),
        *_break_even(chart),
        "",
        "Set:",
        *(f"- {line}" for line in settings),
        "",
        _GATE,
        "",
        "Simulated on modelled servers; docs/simulation.md tells the model's error.",
    ]
    return "\n".join(lines) + "\n"


def _break_even(chart: Chart) -> list[str]:
    lines = []
    for tier, found in chart.items():
        points = ", ".join(f"R {ratio:.2f}: {gain:+.1%}" for ratio, gain in found)
        pays = [ratio for ratio, gain in found if gain > 0]
        said = f"pays from about R = {min(pays):.2f} on" if pays else "does not pay at any R that was tried"
        lines.append(f"Break-even: {tier} {said} (GPU tiers scaled; {points}).")
    return lines


def as_json(advice: Advice, chart: Chart, settings: Sequence[str]) -> str:
    """The same as data."""
    shown = asdict(advice)
    for option, told in zip(shown["options"], advice.options, strict=True):
        option["gain"] = round(told.gain, 6)
    shown["break_even"] = {
        tier: [{"ratio": ratio, "gain": gain} for ratio, gain in points] for tier, points in chart.items()
    }
    shown["settings"] = list(settings)
    shown["gate"] = _GATE
    return json.dumps(shown, indent=2) + "\n"


def as_html(advice: Advice, chart: Chart, settings: Sequence[str]) -> str:
    """The page with the chart drawn."""
    lines = {tier.value: points for tier, points in chart.items()}
    figure = plot("Gain by R (reusable prompt KV / GPU tiers)", lines) if lines else ""
    text = html.escape(as_markdown(advice, chart, settings))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>epp advise</title>'
        '<body style="font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem">'
        f'<pre style="white-space:pre-wrap">{text}</pre>{figure}</body></html>\n'
    )
