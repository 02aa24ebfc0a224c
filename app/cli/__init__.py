"""The command line: serve, migrate, ingest, facts, doctor, mcp. Imports what a command needs only when it runs."""

import sys
from pathlib import Path

import click

EXISTING = click.Path(exists=True, path_type=Path)
BASE = click.option("--base", default="default", show_default=True, help="The base it is about.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnstream")
def main() -> None:
    """turnstream: a chat server that shows its work."""


@main.command()
@click.option(
    "--load",
    "paths",
    multiple=True,
    type=EXISTING,
    help="A file or folder to take into the default base at start; what it holds already is left alone. Repeatable.",
)
def serve(paths: tuple[Path, ...]) -> None:
    """Serve the API and the page; without a database setting, on an embedded Postgres."""
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
    from app.serve import database_address
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
def doctor() -> None:
    """Check the database, its schema and the configured model; says what the endpoint supports."""
    from app.cli.doctor import run

    sys.exit(run())


@main.command()
@BASE
def mcp(base: str) -> None:
    """Serve the tools over stdin and stdout, for an MCP client that starts this command."""
    from app.cli.mcp import run

    run(base)


if __name__ == "__main__":
    main()
