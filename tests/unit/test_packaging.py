"""What surrounds the code: image, compose file, make targets, CI, manual and sample agree with the code."""

import ast
import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.serve import REQUESTS_END_S
from app.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
MANUAL = sorted((ROOT / "docs" / "manual").glob("*.md"))
SAMPLE = sorted(path for path in (ROOT / "sample").iterdir() if path.suffix != ".jsonl")
KNOWN = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
HAN = re.compile("[\u4e00-\u9fff]")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def setting_names(content: str) -> set[str]:
    return set(re.findall(rf"{PREFIX}[A-Z][A-Z0-9_]*[A-Z0-9]", content))


def dockerfile() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: comments dropped, continued lines joined."""
    lines = [line for line in text("Dockerfile").splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def final_stage() -> list[tuple[str, str]]:
    instructions = dockerfile()
    start = max(i for i, (word, _) in enumerate(instructions) if word == "FROM")
    return instructions[start:]


def compose() -> dict[str, Any]:
    return yaml.safe_load(text("docker-compose.yml"))


def make_rules() -> dict[str, tuple[str, list[str]]]:
    """The Makefile's rules: target to prerequisites and recipe lines."""
    rules: dict[str, tuple[str, list[str]]] = {}
    target = ""
    for line in text("Makefile").splitlines():
        if match := re.fullmatch(r"([a-z]+|\$\(STAMP\)):(?!=)\s*(.*)", line):
            target = match[1]
            rules[target] = (match[2], [])
        elif line.startswith("\t"):
            rules[target][1].append(line[1:])
    return rules


@pytest.mark.parametrize(
    "name",
    [
        "Dockerfile",
        "docker-compose.yml",
        "deploy/nginx/turnstream.conf",
        "Makefile",
        "README.md",
        "SECURITY.md",
        "app/llm/phrasing.py",
        *(f"docs/manual/{page.name}" for page in MANUAL),
    ],
)
def test_every_setting_that_is_named_exists(name: str) -> None:
    """A name in a file that people copy from is one the server reads."""
    assert setting_names(text(name)) <= KNOWN


def test_every_setting_is_in_the_manual_with_its_default() -> None:
    """The page Settings lists each setting once; plain defaults are the code's."""
    rows = re.findall(rf"^\| `({PREFIX}\w+)` \| (.+?) \|", text("docs/manual/06-settings.md"), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(KNOWN)
    given = dict(rows)
    for name, field in Settings.model_fields.items():
        shown = given[f"{PREFIX}{name.upper()}"]
        if field.default is None and name != "pg_account":
            assert shown == "not set"
        elif isinstance(field.default, bool):
            assert shown == f"`{str(field.default).lower()}`"
        elif isinstance(field.default, str | int | float):
            assert shown == f"`{field.default}`"


def test_the_manual_is_a_few_titled_pages() -> None:
    """search_docs cuts pages at their headings, so each begins with one."""
    assert 8 <= len(MANUAL) <= 24
    titles = [page.read_text(encoding="utf-8").splitlines()[0] for page in MANUAL]
    assert all(title.startswith("# ") for title in titles)
    assert len(set(titles)) == len(titles)


def test_the_image_runs_the_server_as_a_user_without_rights() -> None:
    """The final stage names a user that isn't root, and starts the server without a shell in between."""
    stage = dict(final_stage())
    assert stage["USER"] not in ("root", "0")
    assert json.loads(stage["CMD"]) == ["turnstream", "serve"]
    assert "ENTRYPOINT" not in stage


def test_the_image_is_built_from_files_that_exist_and_carries_no_secret() -> None:
    """Every copied path is in the checkout and not ignored; no build argument or variable names a secret."""
    ignored = text(".dockerignore").splitlines()
    for word, rest in dockerfile():
        if word == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source.split('/')[0]}" in ignored, source
        if word in ("ENV", "ARG"):
            assert re.search("KEY|PASSWORD|TOKEN|SECRET", rest) is None
    assert ignored[1] == "*"


def test_the_image_says_whether_it_is_healthy() -> None:
    """The health check is a Python program that parses and asks /healthz on the configured port."""
    check = dict(final_stage())["HEALTHCHECK"]
    command = json.loads(check[check.index("CMD ") + 4 :])
    assert command[:2] == ["python", "-c"]
    ast.parse(command[2])
    assert "/healthz" in command[2]
    assert f"{PREFIX}PORT" in command[2]


def test_the_wheel_takes_along_what_the_server_needs_at_run_time() -> None:
    """Migrations, sample and manual are in the wheel, from folders that exist; the script's target exists."""
    project = tomllib.loads(text("pyproject.toml"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {"migrations", "sample", "docs/manual"} <= set(included)
    assert all((ROOT / folder).is_dir() for folder in included)
    assert project["project"]["license"] == "Apache-2.0"
    assert "Apache License" in text("LICENSE")


def test_the_changelog_begins_with_the_version_that_is_built_and_the_day_of_its_release() -> None:
    """What is done after a release stands above it, under Unreleased."""
    headings = re.findall(r"^## (.+)$", text("CHANGELOG.md"), re.MULTILINE)
    released = [heading for heading in headings if heading != "Unreleased"]
    version = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    assert re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d{{2}}-\d{{2}}", released[0])


def test_the_licence_is_whole() -> None:
    """Apache-2.0, every section of it."""
    content = text("LICENSE")
    assert re.findall(r"^   (\d)\. [A-Z]", content, re.MULTILINE) == [str(n) for n in range(1, 10)]
    assert "END OF TERMS AND CONDITIONS" in content
    assert content.rstrip().endswith("limitations under the License.")


SERVERS = ("app", "replica")
"""The services that run turnstream: one alone, or several in the profile `replicas`."""


def test_compose_publishes_on_this_machine_only() -> None:
    """OPEN_NETWORK is only right while a port is published on loopback, and none but the door's is."""
    services = compose()["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"app": ["127.0.0.1:8000:8000"], "nginx": ["127.0.0.1:8000:8080"]}
    for name in SERVERS:
        environment = services[name]["environment"]
        assert environment["TURNSTREAM_HOST"] == "0.0.0.0"
        assert environment["TURNSTREAM_OPEN_NETWORK"] == "true"


def test_compose_waits_for_a_healthy_database_and_keeps_its_data() -> None:
    """The application starts after the health check passes; the data is on a named volume; pgvector is there."""
    described = compose()
    db = described["services"]["db"]
    assert described["services"]["app"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert db["image"] == "pgvector/pgvector:pg18"
    assert db["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert db["volumes"] == ["db:/var/lib/postgresql"]
    assert "db" in described["volumes"]


def test_compose_has_a_profile_of_three_replicas_behind_nginx() -> None:
    """They differ from the single process by the Redis alone; starting nginx starts them and what they need, not it."""
    services = compose()["services"]
    assert {name for name, service in services.items() if "profiles" in service} == {"replica", "nginx", "redis"}
    assert services["replica"]["deploy"]["replicas"] == 3
    needed = {name: set(service.get("depends_on", ())) for name, service in services.items()}
    assert (needed["nginx"], needed["replica"]) == ({"replica"}, {"db", "redis"})
    assert all(
        condition == {"condition": "service_healthy"}
        for service in services.values()
        for condition in service.get("depends_on", {}).values()
    )
    alone, several = (services[name]["environment"] for name in SERVERS)
    assert several == alone | {"TURNSTREAM_REDIS_URL": "redis://redis:6379/0"}
    assert services["nginx"]["volumes"] == ["./deploy/nginx:/etc/nginx/conf.d:ro"]


@pytest.mark.parametrize("name", SERVERS)
def test_compose_waits_longer_for_a_server_s_end_than_the_server_drains(name: str) -> None:
    """The running turns' time, the requests' time, and some for handing over."""
    grace = re.fullmatch(r"(\d+)s", compose()["services"][name]["stop_grace_period"])
    assert grace is not None
    assert int(grace[1]) >= Settings.model_fields["drain_s"].default + REQUESTS_END_S + 5


def test_the_service_that_the_manual_shows_has_as_long_to_end() -> None:
    """Systemd kills what takes longer."""
    [grace] = re.findall(r"^TimeoutStopSec=(\d+)$", text("docs/manual/21-operating.md"), re.MULTILINE)
    assert int(grace) >= Settings.model_fields["drain_s"].default + REQUESTS_END_S + 5


def test_every_event_of_the_log_that_the_manual_explains_is_logged() -> None:
    """Under the name that people look for."""
    rows = re.findall(r"^\| (`.+?) \|", text("docs/manual/21-operating.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)} - {"database_unavailable", "database_busy"}
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "app").rglob("*.py"))
    assert len(named) > 10
    assert [name for name in sorted(named) if not re.search(rf'_log\.\w+\(\s*"{name}"', source)] == []


def test_compose_holds_no_secret() -> None:
    """The password comes from the environment and its absence stops the start; keys are only passed on."""
    services = compose()["services"]
    assert services["db"]["environment"]["POSTGRES_PASSWORD"].startswith("${POSTGRES_PASSWORD:?")
    for name in SERVERS:
        environment = services[name]["environment"]
        url = environment["TURNSTREAM_DATABASE_URL"]
        assert re.fullmatch(r"postgresql://turnstream:\$\{POSTGRES_PASSWORD:\?[^}]*\}@db:5432/turnstream", url)
        passed_on = {k: v for k, v in environment.items() if k.startswith((f"{PREFIX}LLM_", f"{PREFIX}EMBEDDING_"))}
        assert {f"{PREFIX}LLM_API_KEY", f"{PREFIX}EMBEDDING_API_KEY"} <= set(passed_on)
        assert set(passed_on.values()) == {None}


def test_nginx_agrees_with_compose_and_the_settings() -> None:
    """Its port, the replicas' name and port, and what an upload may weigh; nginx itself reads it in tests/faults."""
    rules, addresses = text("deploy/nginx/turnstream.conf"), text("deploy/nginx/replicas.inc")
    services = compose()["services"]
    assert re.findall(r"^\s*listen (\d+);", rules, re.MULTILINE) == [services["nginx"]["ports"][0].split(":")[-1]]
    port = dict(
        pair.split("=") for word, rest in final_stage() if word == "ENV" for pair in rest.split() if "=" in pair
    )
    [address] = re.findall(r"^server (\S+) ", addresses, re.MULTILINE)
    assert address == f"replica:{port[f'{PREFIX}PORT']}"
    [size] = re.findall(r"client_max_body_size (\d+)m;", rules)
    most = Settings.model_fields["max_upload_bytes"].default
    assert most < int(size) * 1024**2 <= most * 1.1
    [patience] = re.findall(r"proxy_read_timeout (\d+)s;", rules)
    assert int(patience) > 4 * Settings.model_fields["heartbeat_s"].default


def test_make_has_its_targets() -> None:
    """DESIGN section 3: setup, run, test, bench, check; each part of setup is skipped while its sources are unchanged."""
    rules = make_rules()
    assert {"setup", "run", "test", "check", "bench", "wheel", "kills", "soak", "clean"} <= set(rules)
    assert rules["setup"] == ("$(STAMP) page", [])
    assert rules["$(STAMP)"][0] == "pyproject.toml hatch_build.py"
    assert rules["page"] == ("$(STAMP)", ["@$(BIN)/python hatch_build.py"])
    assert rules["run"] == ("setup", ["$(BIN)/turnstream serve --load sample"])
    assert rules["test"] == ("setup", ["$(BIN)/python -m pytest -n 3"])
    assert [line.split()[-1].removeprefix("$(BIN)/") for line in rules["check"][1]] == [
        "check",
        "--check",
        "pyright",
        "lint-imports",
    ]
    assert rules["bench"] == ("setup", ["$(BIN)/python -m bench"])
    assert rules["wheel"] == ("setup", ["@$(BIN)/python -m tests.wheel.check"])


def test_ci_calls_the_tests_first() -> None:
    """`.ci/run` is executable, parses, stops at the first unexpected failure, and runs what the README says."""
    script = ROOT / ".ci" / "run"
    content = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert content.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in content
    at = [content.index(f"make {part}") for part in PARTS]
    assert at == sorted(at)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


@pytest.fixture
def copied() -> Generator[Path, None, None]:
    """A copy of .ci/run that any account may run, where every program that it looks for is found and does nothing."""
    folder = Path(tempfile.mkdtemp(prefix="turnstream-ci-"))
    folder.chmod(0o755)
    (folder / ".ci").mkdir()
    stubs: dict[str, str] = dict.fromkeys(("nginx", "pgbouncer", "faketime", "chromium", "apt-get"), "exit 0")
    stubs["dpkg-query"] = "echo installed"
    (folder / "bin").mkdir()
    for name, does in stubs.items():
        write_program(folder / "bin" / name, f"#!/bin/sh\n{does}\n")
    write_program(folder / ".ci" / "run", text(".ci/run"))
    yield folder
    shutil.rmtree(folder)


PARTS = ("test", "check", "wheel", "kills")
"""The targets that CI makes, in order."""


def write_program(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")
    path.chmod(0o755)


def run_ci(copied: Path, endings: Mapping[str, int], user: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the copy, as that user, where `make <target>` ends as told."""
    rules = [f"{target}:\n\t@echo ran {target} $$TURNSTREAM_CI; exit {code}\n" for target, code in endings.items()]
    (copied / "Makefile").write_text("".join(rules), encoding="utf-8")
    environment = {"PATH": f"{copied / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        [copied / ".ci" / "run"],
        env=environment,
        user=user,
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize("failing", [(), ("test",), ("check",), ("wheel",), ("kills",), ("test", "check", "wheel")])
def test_ci_fails_when_any_part_of_it_fails(copied: Path, failing: tuple[str, ...]) -> None:
    """All run in every case, the tests' closing lines come last, and no failure is lost in the pipe."""
    ended = run_ci(copied, {name: int(name in failing) for name in PARTS})
    assert (ended.returncode == 0) == (not failing)
    closing = ended.stdout[ended.stdout.index("its closing lines:") :]
    assert "ran test 1" in closing  # with TURNSTREAM_CI=1
    for name in PARTS[1:]:
        assert f"ran {name}" in ended.stdout
    told = [f"make {name} ended with {2 if name in failing else 0}" for name in PARTS[1:]]
    assert closing.rstrip().splitlines()[-3:] == told


def test_ci_without_root_says_what_is_missing(copied: Path) -> None:
    """And runs nothing."""
    write_program(copied / "bin" / "dpkg-query", "#!/bin/sh\nexit 1\n")
    ended = run_ci(copied, dict.fromkeys(PARTS, 0), user="nobody" if os.geteuid() == 0 else None)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        1,
        "",
        "missing: fonts-noto-cjk; install them, or run this as root\n",
    )


def test_the_sample_is_a_base_in_two_languages() -> None:
    """Issue 1: 25 documents or more, English and Chinese, each with a title; one HTML and one text file."""
    assert 25 <= len(SAMPLE) <= 40
    assert {path.suffix for path in SAMPLE} == {".md", ".html", ".txt"}
    chinese = [path for path in SAMPLE if len(HAN.findall(path.read_text(encoding="utf-8"))) > 200]
    assert len(chinese) >= 10
    assert len(SAMPLE) - len(chinese) >= 15
    for path in SAMPLE:
        assert path.suffix != ".md" or path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        (
            "openai-board-november-2023.md",
            [
                "Greg Brockman (chair), Ilya Sutskever, Sam Altman, Adam D'Angelo, Tasha McCauley and Helen Toner",
                "Mira Murati interim chief executive",
                "Emmett Shear",
                "Bret Taylor (chair), Larry Summers and Adam D'Angelo",
            ],
        ),
        ("openai-board-2023-zh.md", ["Greg Brockman，主席", "Helen Toner", "2023年11月17日", "Emmett Shear"]),
        ("openai-timeline-zh.md", ["OpenAI 时间线", "2015年12月11日", "2022年11月30日", "2025年"]),
        ("openai-and-anthropic.md", ["29 December 2020", "founded in 2021"]),
    ],
)
def test_the_sample_holds_the_facts_that_the_harness_asks_for(name: str, facts: list[str]) -> None:
    """Seeds 001: board, timeline and relation questions have their answers in the base."""
    content = text(f"sample/{name}")
    assert [fact for fact in facts if fact not in content] == []
