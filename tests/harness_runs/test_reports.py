"""Reports: the JSON that is promised, a page that fetches nothing, and the command as a user gives it."""

import asyncio
import io
import json
import re
import signal
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from rich.table import Table
from sqlalchemy import URL

from app.errors import StartError
from app.harness import files, tables
from app.harness import run as runs
from app.harness.page import page
from app.harness.records import SourceSeen, Unmet
from app.store import harness_runs
from tests.harness.replica import COMMAND, environment
from tests.harness.replica import run as command
from tests.harness.scripted_endpoint import MUTE, ScriptedEndpoint
from tests.harness_runs.conftest import Bench
from tests.harness_runs.made import A, run, skip, turn

EVIL = "</title><script>alert(1)</script><img src=http://evil.test/x onerror=alert(1)> & \"quoted\" 'too'"
SOURCE = SourceSeen(1, "chunk", EVIL, EVIL)


def address(url: URL) -> str:
    """As a user writes it."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def test_the_json_has_what_is_promised_and_reads_back() -> None:
    """Issue 8: {"turns": [{"question", "tools", "sources", "evidence", "terminal", ...}]}; what was read is the same."""
    done = run(A, [turn(sources=(SOURCE,)), skip(conversation="b")])
    content = json.loads(files.as_json(done))
    first, second = content["turns"]
    assert {key: first[key] for key in ("question", "tools", "evidence", "terminal")} == {
        "question": "Who sat on the board?",
        "tools": ["search_chunks"],
        "evidence": "cited",
        "terminal": "done",
    }
    assert [source["n"] for source in first["sources"]] == [1]
    assert (second["tools"], second["sources"], second["evidence"]) == (["no_evidence_needed"], [], "skipped")
    (arm,) = content["arms"]
    assert (arm["model"], arm["prompt"], arm["verdicts"]) == ("model-a", 2, {"cited": 1, "skipped": 1})
    assert arm["rates"]["skipped"] == pytest.approx(
        {"count": 1, "n": 2, "share": 0.5, "low": 0.0945, "high": 0.9055}, abs=1e-4
    )
    assert msgspec.json.decode(files.as_json(done), type=type(done)) == done


def test_a_file_that_is_no_report_says_so(tmp_path: Path) -> None:
    """Missing, no JSON, another JSON; and a report is refused a place before the run, not after it."""
    with pytest.raises(StartError, match=r"none\.json can't be read: No such file"):
        files.read(tmp_path / "none.json")
    for content in (b"[", b'{"turns": []}'):
        (tmp_path / "other.json").write_bytes(content)
        with pytest.raises(StartError, match=r"other\.json is no report of the harness: "):
            files.read(tmp_path / "other.json")
    with pytest.raises(StartError, match=r"can't be written: there is no folder .*absent"):
        files.check(tmp_path / "absent" / "report.json")


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def test_the_page_holds_no_script_and_fetches_nothing() -> None:
    """No tag or attribute that fetches or runs, whatever a model or a script wrote; the policy forbids it besides."""
    evil = turn(
        question=EVIL, answer=EVIL, conversation=EVIL, model=EVIL, tools=(EVIL,), failed_calls=(EVIL,), sources=(SOURCE,),
        invented=(9,), unmet=(Unmet(EVIL, EVIL, EVIL),),
    )  # fmt: skip
    failed = turn(terminal="error", error_code="answer_empty", evidence=None, first_token_ms=None)
    arm = msgspec.structs.replace(A, model=EVIL)
    tags = read(page(run(arm, [evil, failed], script=EVIL, base=EVIL)))
    names = {name for name, _ in tags.tags}
    assert names.isdisjoint({"script", "img", "link", "iframe", "object", "embed", "form", "a", "base", "use", "image"})
    attributes = {attribute for _, given in tags.tags for attribute in given}
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "href", "xlink:href", "action")]
    styles = " ".join(str(given.get("style")) for _, given in tags.tags) + tags.text
    assert re.search(r"url\(|@import", styles) is None
    assert EVIL in tags.text
    (policy,) = [given["content"] for _, given in tags.tags if given.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_the_page_shows_every_turn_and_every_plot() -> None:
    """A row a turn, a plot each for verdicts, three rates and times."""
    done = run(A, [turn(), skip(conversation="b"), turn(conversation="c", terminal="error", error_code="internal")])
    tags = read(page(done))
    assert sum(name == "svg" for name, _ in tags.tags) == 5
    assert [word for word in ("board · 1", "b · 1", "c · 1", "skipped", "internal") if word not in tags.text] == []


def printed(table: Table) -> str:
    console = Console(width=250, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def test_tables_show_text_of_models_as_it_is() -> None:
    """Brackets of a question are no markup of the terminal's, nor are those of a name."""
    odd = turn(question="[bold]Who[/bold] [1]?", tools=("[red]x[/red]",), conversation="[i]")
    said = printed(tables.turns(run(A, [odd])))
    assert [word for word in ("[bold]Who[/bold] [1]?", "[red]x[/red]", "[i] · 1") if word not in said] == []
    arm = msgspec.structs.replace(A, model="[red]m[/red]")
    assert "[red]m[/red]@2" in printed(tables.arms(run(arm, [odd])))


async def test_kept_runs_are_listed_with_how_far_they_came(bench: Bench) -> None:
    """Newest first; one that wasn't ended is told apart."""
    plan = run(A, [turn()], script="listed").plan
    begun = await runs.begin(bench.database, plan)
    (newest,) = await harness_runs.newest(bench.database, limit=1)
    said = printed(tables.runs([(newest, plan)]))
    assert [word for word in (begun.id, "listed", "model-a@2", "0 of 1", "interrupted") if word not in said] == []


async def test_the_command_runs_and_compares(bench: Bench, tmp_path: Path) -> None:
    """As a user gives it, offline: reports are written, two arms alike have no winner."""
    given = {"database_url": address(bench.database.engine.url), "data_dir": str(tmp_path)}
    report, html = tmp_path / "report.json", tmp_path / "report.html"
    to_files = ("--json", str(report), "--html", str(html))
    status, said = await command("harness", "run", "fifteen", "--prompt", "1", "--prompt", "2", *to_files, **given)
    assert status == 0, said
    assert "All 30 turns meet what the script expects." in said
    turns = json.loads(report.read_text())["turns"]
    assert [(t["question"], t["evidence"]) for t in turns[:2]] == [
        ("openai和anthropic关系", "cited"),
        ("OpenAI 的时间线", "cited"),
    ]
    assert html.read_text().startswith("<!doctype html>")
    arms = [f"{report}#extractive-offline@{version}" for version in (1, 2)]
    status, said = await command("harness", "compare", *arms, **given)
    assert status == 0, said
    assert "15 pairs of turns in 6 conversations of fifteen-zh; 0 turns stand on one side only." in said
    assert "No difference is larger than noise, so neither side is called better" in said


async def test_the_command_fails_where_an_expectation_does(bench: Bench, tmp_path: Path) -> None:
    """Status 1, and how many turns missed something."""
    given = {"database_url": address(bench.database.engine.url), "data_dir": str(tmp_path)}
    script = tmp_path / "mine.yaml"
    turn_of = "{question: Who are you, about: talk, expect: {facts: [Rumpelstiltskin]}}"
    script.write_text(f"name: mine\nabout: one\nconversations:\n  - {{name: a, turns: [{turn_of}]}}\n")
    status, said = await command("harness", "run", str(script), **given)
    assert status == 1, said
    assert "1 of 1 turns miss something that the script expects." in said


async def test_an_interrupted_command_says_how_to_go_on(
    bench: Bench, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """Ctrl-C while a model is silent: status 130, the run is kept and named."""
    asked = endpoint.script(MUTE)
    script = tmp_path / "mine.yaml"
    script.write_text(
        f"name: mine\nabout: one\nconversations:\n  - name: a\n    turns:\n      - question: 'Who? {asked}'\n"
    )
    process = await asyncio.create_subprocess_exec(
        COMMAND, "harness", "run", str(script),
        env=environment(
            database_url=address(bench.database.engine.url), data_dir=str(tmp_path), llm_base_url=endpoint.base_url,
            llm_model="scripted",
        ),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path,
    )  # fmt: skip
    seen = await asked.request(0)
    process.send_signal(signal.SIGINT)
    said, _ = await process.communicate()
    assert process.returncode == 130, said.decode()
    assert seen.closed.is_set()
    (kept,) = await harness_runs.newest(bench.database, limit=1)
    assert f"Interrupted; go on with --resume {kept.id}" in said.decode()
    assert (kept.script, kept.turns, kept.finished_at) == ("mine", 0, None)
