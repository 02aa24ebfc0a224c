"""The command line. Imports what a command needs only when it runs."""

import gc
import sys
from pathlib import Path
from typing import Any, TypedDict, Unpack

import click

EXISTING = click.Path(exists=True, path_type=Path)
BASE = click.option("--base", default="default", show_default=True, help="The base it is about.")


class LoadedPath(click.Path):
    """A path that exists; the word `sample` where none of that name does is the sample base that came along."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or click's own refusal."""
        if value == "sample" and not Path(value).exists():
            from app.harness.sample import sample_folder

            value = sample_folder()
        return super().convert(value, param, ctx)


class AskOptions(TypedDict):
    """The argument and options of `ask`."""

    question: str
    base: str | None
    conversation: str | None
    as_of: str | None
    url: str | None
    as_json: bool


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnstream")
def main() -> None:
    """turnstream: a chat server that shows its work."""


@main.command()
@click.option(
    "--load",
    "paths",
    multiple=True,
    type=LoadedPath(exists=True, path_type=Path),
    help="A file or folder to take into the default base at start, or `sample`, the sample base; what it holds already "
    "is left alone. Repeatable.",
)
def serve(paths: tuple[Path, ...]) -> None:
    """Serve the API and the page; without a database setting, on an embedded Postgres."""
    gc.disable()  # what is imported stays: looking for garbage in it takes a sixth of the start

    from app.cli.report import report
    from app.settings import read

    with report():
        settings = read()
        from app.serve import run

        run(settings, load=paths)


@main.command()
def migrate() -> None:
    """Bring the database to the current schema."""
    from app.cli.report import report
    from app.process import database_address
    from app.settings import read
    from app.store.migrate import head

    with report(), database_address(read()):
        click.echo(f"The database is at revision {head()}.")


@main.command()
@click.argument("paths", nargs=-1, required=True, type=EXISTING)
@BASE
def ingest(paths: tuple[Path, ...], base: str) -> None:
    """Read files and folders into a base."""
    from app.cli.ingest import run

    sys.exit(run(paths, base))


@main.group("facts")
def facts_group() -> None:
    """The knowledge graph: import facts, or have the model read them out of the documents."""


@facts_group.command("import")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@BASE
def import_facts(path: Path, base: str) -> None:
    """Take in a file of facts, .jsonl or .csv; what the base knows already is left alone."""
    from app.cli.facts import run

    sys.exit(run(path, base))


@facts_group.command("extract")
@BASE
def extract_facts(base: str) -> None:
    """Have the configured model propose facts from the base's documents; a person nods to them."""
    from app.cli.facts_extract import run

    sys.exit(run(base))


@main.command()
@click.argument("question")
@click.option("--base", help="The base of a new conversation; unset: default.")
@click.option("--conversation", help="The id of a conversation to go on with.")
@click.option("--as-of", help="Answer from what the base held then: a year, a month, a day or an instant.")
@click.option("--url", help="A server to ask; unset: TURNSTREAM_URL, one at HOST:PORT, or this process.")
@click.option("--json", "as_json", is_flag=True, help="Print each frame as a line of JSON.")
def ask(**given: Unpack[AskOptions]) -> None:
    """Ask a question; steps and the answer come as they are made. Ctrl-C stops the turn.

    Exit status: 0 answered, 1 failed, 2 could not begin, 130 stopped.
    """
    from app.cli.ask import run
    from app.cli.ask_frames import Question

    question = Question(given["question"], given["base"], given["conversation"], given["as_of"])
    sys.exit(run(question, url=given["url"], as_json=given["as_json"]))


@main.command()
def doctor() -> None:
    """Check the database, its schema and the configured model; says what the endpoint supports."""
    from app.cli.doctor import run

    sys.exit(run())


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it is there.")
def backup(file: Path, *, overwrite: bool) -> None:
    """Write everything the database holds to FILE, while servers run or not."""
    from app.cli.backup import make

    make(file, overwrite=overwrite)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Drop what the database holds.")
def restore(file: Path, *, replace: bool) -> None:
    """Put the backup FILE into the database, whole or not at all, and bring it to the current schema."""
    from app.cli.backup import restore_from

    restore_from(file, replace=replace)


class AuditOptions(TypedDict):
    """The options of `audit list`."""

    who: str | None
    action: str | None
    base: str | None
    object_id: str | None
    since: str | None
    limit: int
    as_json: bool


@main.group()
def audit() -> None:
    """Who changed what, and when; lines are never changed."""


@audit.command("list")
@click.option("--who", help="Only what this owner did.")
@click.option("--action", help="Only this action, such as document.deleted.")
@click.option("--base", help="Only what was done in the base of this name.")
@click.option("--object", "object_id", help="Only what was done to the object of this id.")
@click.option("--since", help="Only from then on: a year, a month, a day or an instant.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1_000_000), help="So many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as a line of JSON.")
def audit_list(**given: Unpack[AuditOptions]) -> None:
    """Show the audit, newest first."""
    from app.cli.audit import Wanted, show

    show(Wanted(**given))


@audit.command("prune")
@click.option("--days", required=True, type=click.IntRange(1, 36_500), help="Keep the lines of so many days.")
def audit_prune(days: int) -> None:
    """Delete lines older than that many days, and leave one that says so."""
    from app.cli.audit import prune

    prune(days)


@main.command()
@BASE
def mcp(base: str) -> None:
    """Serve the tools over stdin and stdout, for an MCP client that starts this command."""
    from app.cli.mcp import run

    run(base)


class TokenOptions(TypedDict):
    """The options of `token create`."""

    name: str
    scope: str
    bases: tuple[str, ...]
    owner: str | None
    days: int | None


@main.group()
def token() -> None:
    """Bearer tokens, for a server with TURNSTREAM_AUTH=token."""


@token.command("create")
@click.option("--name", required=True, help="What it is called, for you.")
@click.option(
    "--scope",
    required=True,
    type=click.Choice(["read", "write", "admin"]),
    help="read: read and ask; write: also upload and record facts; admin: everything.",
)
@click.option("--base", "bases", multiple=True, help="A base that it is limited to. Repeatable; without: every base.")
@click.option("--owner", help="Whose conversations it is used for; without: its name.")
@click.option("--days", type=click.IntRange(1, 36_500), help="After how many days it expires; without: never.")
def token_create(**given: Unpack[TokenOptions]) -> None:
    """Make a token. It is shown once, on standard output; only a hash of it is kept."""
    from app.cli.token import Wanted, create

    create(Wanted(given["name"], given["scope"], given["bases"], given["owner"], given["days"]))


@token.command("list")
def token_list() -> None:
    """Every token, with when it was last used; never the secret itself."""
    from app.cli.token import list_all

    list_all()


@token.command("revoke")
@click.argument("named")
def token_revoke(named: str) -> None:
    """End the token NAMED, by its name or id. Running servers refuse it within 5 seconds."""
    from app.cli.token import revoke

    revoke(named)


class RunOptions(TypedDict):
    """The options of `harness run`."""

    models: tuple[str, ...]
    prompts: tuple[int, ...]
    base: str
    repeat: int
    concurrency: int
    resume: str | None
    json_path: Path | None
    html_path: Path | None


@main.group()
def harness() -> None:
    """Measure whether answers rest on evidence: scripted turns, in process, kept with what they were run with."""


@harness.command("run")
@click.argument("script")
@click.option("--model", "models", multiple=True, help="A model of the configured endpoint. Repeatable.")
@click.option("--prompt", "prompts", multiple=True, type=int, help="A version of the prompts. Repeatable.")
@click.option("--base", default="sample", show_default=True, help="The base to ask; an empty one gets the sample.")
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(1, 1_000), help="How often all is asked.")
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 64), help="Conversations at once.")
@click.option("--resume", metavar="RUN", help="An interrupted run to go on with.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there.")
@click.option("--html", "html_path", type=click.Path(dir_okay=False, path_type=Path), help="Write a page there.")
def harness_run(script: str, **given: Unpack[RunOptions]) -> None:
    """Run SCRIPT, a shipped script's name or a path to a .yaml; exits with 1 when a turn misses what is expected."""
    from app.cli.harness import Outputs, Wanted, run_script

    wanted = Wanted(
        script,
        given["models"],
        given["prompts"],
        given["base"],
        repeats=given["repeat"],
        at_once=given["concurrency"],
        resume=given["resume"],
    )
    sys.exit(run_script(wanted, Outputs(given["json_path"], given["html_path"])))


@harness.command("list")
def harness_list() -> None:
    """The runs that are kept, newest first."""
    from app.cli.harness import list_runs

    sys.exit(list_runs())


@harness.command("compare")
@click.argument("a")
@click.argument("b")
def harness_compare(a: str, b: str) -> None:
    """Say how A and B differ: runs or JSON reports; RUN#MODEL@PROMPT picks one arm of several."""
    from app.cli.harness_compare import run

    sys.exit(run(a, b))


if __name__ == "__main__":
    main()
