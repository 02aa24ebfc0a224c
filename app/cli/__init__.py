"""The command line: turnstream serve | migrate | ingest | doctor. Imports what a command needs only when it runs."""

import sys
from pathlib import Path

import click

EXISTING = click.Path(exists=True, path_type=Path)


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
@click.option("--base", default="default", show_default=True, help="The base to put them in.")
def ingest(paths: tuple[Path, ...], base: str) -> None:
    """Read files and folders into a base."""
    from app.cli.ingest import run

    sys.exit(run(paths, base))


@main.command()
def doctor() -> None:
    """Check the database, its schema and the configured model; says what the endpoint supports."""
    from app.cli.doctor import run

    sys.exit(run())


if __name__ == "__main__":
    main()
