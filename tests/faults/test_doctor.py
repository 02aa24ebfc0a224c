"""turnstream doctor, run as a user runs it: what it finds, what it hints at, its exit status. Source: issue 2."""

from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.harness.replica import free_port, run
from tests.harness.scripted_endpoint import Reply, ScriptedEndpoint, Step, call, event, http, stream, text, unless

CALLED = call(("report_word", {"word": "pelican"}))
REFUSED = http(400, {"error": {"message": "field not supported"}})


def address(url: URL) -> str:
    """As a user writes it."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


async def examined(database_url: URL, step: Step) -> tuple[int, str]:
    """The exit status and the table for an endpoint that answers so."""
    async with ScriptedEndpoint() as endpoint:
        endpoint.default.steps = (step,)
        return await run(
            "doctor",
            database_url=address(database_url),
            llm_base_url=endpoint.base_url,
            llm_model="scripted",
            llm_api_key="sk-secret-of-doctor",
        )


async def test_an_endpoint_that_can_do_everything_passes(database_url: URL) -> None:
    """Every row is ok, the status is 0, and the key is shown as ***."""
    status, said = await examined(database_url, CALLED)
    assert status == 0, said
    for row in (
        "database",
        "migrations",
        "live log",
        "endpoint",
        "tool calling",
        "tool_choice required",
        "stream usage",
    ):
        assert row in said
    assert "missing" not in said
    assert "***" in said
    assert "sk-secret-of-doctor" not in said


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (unless("tool_choice", REFUSED, CALLED), ["the field is refused", "gate holds without it"]),
        (unless("tools", REFUSED, text("pelican")), ["tool calling is refused", "one-shot retrieval"]),
        (text("pelican"), ["no call was made", "sent back once"]),
        (stream(event({"content": "x"}), event({}, "stop")), ["no usage came"]),
        (
            http(401, {"error": {"message": "bad key sk-secret-of-doctor"}}),
            ["model_rejected", "TURNSTREAM_LLM_API_KEY"],
        ),
        (stream(event({"content": "x"}), close="cut"), ["model_interrupted"]),
    ],
    ids=["tool_choice", "tools", "ignored", "usage", "key", "cut"],
)
async def test_what_an_endpoint_lacks_is_named_with_a_hint(
    database_url: URL, step: Reply | Step, words: list[str]
) -> None:
    """The status is 1, and no secret is printed."""
    status, said = await examined(database_url, step)
    assert status == 1
    told = " ".join(said.split())
    for phrase in words:
        assert phrase in told
    assert "sk-secret-of-doctor" not in said


async def test_an_endpoint_that_can_not_be_reached_is_called_unreachable(database_url: URL) -> None:
    """Nothing listens there."""
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    status, said = await run("doctor", database_url=address(database_url), llm_base_url=nowhere, llm_model="m")
    assert status == 1
    assert "unreachable" in said


async def test_a_database_that_can_not_be_reached_is_named(folder: Path) -> None:
    """The rest is looked at all the same, and the password isn't shown."""
    status, said = await run("doctor", data_dir=str(folder), database_url="postgresql://u:secret@127.0.0.1:1/x")
    assert status == 1
    assert "TURNSTREAM_DATABASE_URL" in said
    assert "offline" in said
    assert "secret" not in said


async def test_without_a_model_the_offline_one_is_named(folder: Path) -> None:
    """Nothing is wrong with that."""
    status, said = await run("doctor", data_dir=str(folder))
    assert status == 0, said
    assert "offline" in said


async def test_a_redis_that_is_not_there_is_named_without_its_password(database_url: URL) -> None:
    """The row says what to check; the exit status is 1."""
    given = f"redis://:sk-secret-of-doctor@127.0.0.1:{free_port()}/0"
    status, said = await run("doctor", database_url=address(database_url), redis_url=given)
    assert status == 1
    assert "live log" in said
    assert "TURNSTREAM_REDIS_URL" in said
    assert "sk-secret-of-doctor" not in said
