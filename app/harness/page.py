"""A run as one HTML file: plots and tables, no script, nothing fetched, everything escaped.

The page forbids itself every request by a policy of its own, so that text of a model can't make it fetch anything.
"""

from html import escape

from app.harness import plots, told
from app.harness.measures import HOW_MUCH, YES_NO, summary
from app.harness.records import Run, TurnSeen

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"

_STYLE = """
:root { color-scheme: light dark; --text: #1d2126; --soft: #656d76; --line: #d9dde2; --bad: #b3261e; --mark: #3a6fd8; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e5e8eb; --soft: #9aa3ad; --line: #3a4149; --bad: #f2857c; --mark: #7ba4f4; }
}
body { font: 15px/1.5 system-ui, "Noto Sans SC", sans-serif; color: var(--text); max-width: 78rem; margin: 2rem auto;
  padding: 0 1.2rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); } td.n, th.n { text-align: right; }
.soft { color: var(--soft); } .bad { color: var(--bad); } code { font-size: .9em; }
details p { white-space: pre-wrap; overflow-wrap: anywhere; }
.tag { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin-right: .4rem; }
svg { max-width: 100%; height: auto; } svg .grid { stroke: var(--line); }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); } svg .tick { fill: var(--soft); }
svg .bar { stroke: var(--mark); stroke-width: 2; } svg .dot { fill: var(--mark); }
svg .faint { fill: var(--mark); opacity: .45; }
"""


def page(run: Run) -> str:
    """The whole file."""
    title = f"{run.plan.script}, {run.created_at}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(told.outcome(run))}</p>",
        _facts(run),
        _plots(run),
        "<h2>By arm</h2>",
        _arms(run),
        "<h2>Turn by turn</h2>",
        _turns(run),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _facts(run: Run) -> str:
    plan = run.plan
    rows = [
        ("run", run.id),
        ("state", f"over since {run.finished_at}" if run.finished_at else "interrupted"),
        ("base", f"{plan.base}, contents {plan.base_hash[:12]}"),
        ("script", f"{plan.script}, {plan.script_hash[:12]}"),
        ("tools", plan.tools_hash[:12]),
        *((f"arm {arm.label}", f"prompts {arm.prompt}, {arm.prompt_hash[:12]}") for arm in plan.arms),
        ("embedding model", plan.embedding_model or "none, passages are found by words"),
        ("repeats", str(plan.repeats)),
        ("turnstream", plan.version),
    ]
    cells = "".join(f"<tr><th>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _plots(run: Run) -> str:
    arms = [(arm.label, run.of(arm)) for arm in run.plan.arms]
    numbers = [(label, summary(turns)) for label, turns in arms]
    legend = " ".join(
        f'<span><span class="tag" style="background:{plots.COLOURS[name]}"></span>{name}</span>&ensp;'
        for name in told.VERDICTS
    )
    out = ["<h2>What the answers rest on</h2>", f'<p class="soft">{legend}</p>']
    out.append(plots.shares([(label, n.verdicts) for label, n in numbers], told.VERDICTS, "verdicts by arm"))
    for measure in YES_NO[:3]:
        out.append(f"<h2>{escape(measure.told.capitalize())}</h2>")
        rows = [(label, n.rates[measure.name]) for label, n in numbers]
        out.append(plots.intervals(rows, f"{measure.told}, with 95% intervals"))
    out.append("<h2>Time to the first token</h2>")
    times = [(label, [t.first_token_ms for t in turns if t.first_token_ms is not None]) for label, turns in arms]
    out.append(plots.strips(times, "ms", "time to the first token by arm"))
    return "\n".join(out)


def _arms(run: Run) -> str:
    numbers = [summary(run.of(arm)) for arm in run.plan.arms]
    rows = [(measure.told, [told.rate(n.rates[measure.name]) for n in numbers]) for measure in YES_NO]
    rows += [(name, [of(n) for n in numbers]) for name, of in told.COUNTS]
    rows += [(f"{m.told}, median", [told.number(n.medians[m.name]) for n in numbers]) for m in HOW_MUCH]
    head = "".join(f"<th>{escape(arm.label)}</th>" for arm in run.plan.arms)
    body = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, cells in rows
    )
    return f'<div class="wide"><table><tr><th></th>{head}</tr>{body}</table></div>'


def _turns(run: Run) -> str:
    heads = ("arm", "turn", "repeat", "question", "tools", "sources", "verdict", "first token", "total", "tokens")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(_turn(turn) for turn in run.turns)}</table></div>'


def _turn(turn: TurnSeen) -> str:
    colour = plots.COLOURS.get(told.verdict(turn), plots.COLOURS["error"])
    sources = "".join(f"<br>[{s.n}] {escape(s.title)} {escape(s.locator)}" for s in turn.sources)
    missed = f'<div class="bad">{escape(told.unmet(turn))}</div>' if turn.unmet else ""
    calls = ", ".join((*turn.tools, *(f"{tool} (failed)" for tool in turn.failed_calls))) or "–"
    invented = f'<br><span class="bad">invented {escape(str(turn.invented))}</span>' if turn.invented else ""
    cells = (
        escape(f"{turn.model}@{turn.prompt}"),
        escape(told.place(turn)),
        str(turn.repeat),
        f"<details><summary>{escape(turn.question)}</summary><p>{escape(turn.answer)}</p></details>{missed}",
        escape(calls),
        f"<details><summary>{len(turn.sources)}</summary>{sources}</details>" if turn.sources else "0",
        f'<span class="tag" style="background:{colour}"></span>{escape(told.verdict(turn))}{invented}',
        "–" if turn.first_token_ms is None else f"{turn.first_token_ms:,} ms",
        f"{turn.total_ms:,} ms",
        escape(told.tokens(turn)),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
