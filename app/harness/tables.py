"""A run and a comparison as tables of the terminal. Text of models and scripts is never markup here."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from app.harness import told
from app.harness.compare import Comparison
from app.harness.measures import HOW_MUCH, YES_NO, summary
from app.harness.records import Plan, Run, TurnSeen
from app.store.harness_runs import RunRecord

_VERDICT_STYLE = {"cited": "green", "uncited": "yellow", "skipped": "cyan", "none": "magenta"}


def turns(run: Run) -> Table:
    """One line a turn."""
    several = len(run.plan.arms) > 1
    heads = ["arm"] * several + ["turn", "question", "tools", "sources", "verdict", "first token", "tokens", "misses"]
    table = Table(*heads)
    for turn in run.turns:
        style = _VERDICT_STYLE.get(told.verdict(turn), "red")
        arm = [f"{turn.model}@{turn.prompt}"] * several
        repeat = f" ({turn.repeat})" if run.plan.repeats > 1 else ""
        cells = [
            *arm,
            told.place(turn) + repeat,
            turn.question,
            _calls(turn),
            str(len(turn.sources)),
            Text(told.verdict(turn), style=style),
            _ms(turn.first_token_ms),
            told.tokens(turn),
            Text(told.unmet(turn), style="red"),
        ]
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    return table


def arms(run: Run) -> Table:
    """One column an arm."""
    table = Table("", *(escape(arm.label) for arm in run.plan.arms))
    numbers = [summary(run.of(arm)) for arm in run.plan.arms]
    for measure in YES_NO:
        table.add_row(measure.told, *(told.rate(n.rates[measure.name]) for n in numbers))
    for name, of in told.COUNTS:
        table.add_row(name, *(of(n) for n in numbers))
    for measure in HOW_MUCH:
        table.add_row(f"{measure.told}, median", *(told.number(n.medians[measure.name]) for n in numbers))
    return table


def runs(found: Sequence[tuple[RunRecord, Plan]]) -> Table:
    """The stored runs, newest first."""
    table = Table("run", "begun", "script", "base", "arms", "repeats", "turns", "state")
    for record, plan in found:
        total = plan.turns * plan.repeats * len(plan.arms)
        table.add_row(
            Text(record.id, no_wrap=True),
            record.created_at.isoformat(sep=" ", timespec="minutes"),
            Text(plan.script),
            Text(plan.base),
            Text(", ".join(arm.label for arm in plan.arms)),
            str(plan.repeats),
            f"{record.turns} of {total}",
            "over" if record.finished_at is not None else "interrupted, or still running",
        )
    return table


def comparison(found: Comparison) -> Table:
    """One line a measure."""
    table = Table(
        "measure", "pairs", "conversations", escape(found.a), escape(found.b), "p", "p, all measures", "repeats needed"
    )
    for one in found.differences:
        style = "bold" if one.better is not None else ""
        table.add_row(
            one.told,
            str(one.n),
            str(one.conversations),
            told.side(one, one.a),
            told.side(one, one.b),
            told.p_value(one.p),
            told.p_value(one.adjusted),
            told.needed(one),
            style=style,
        )
    return table


def _calls(turn: TurnSeen) -> str:
    failed = [f"{tool} (failed)" for tool in turn.failed_calls]
    return ", ".join((*turn.tools, *failed)) or "–"


def _ms(value: int | None) -> str:
    return "–" if value is None else f"{value:,} ms"
