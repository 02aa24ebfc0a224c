"""The graph in the store: each fact once, names found or made, both clocks, and decisions that delete nothing."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from app.errors import AppError, RefusalCode
from app.knowledge import corrections
from app.knowledge.fact_rows import FactRow, ReadRow, parse_row
from app.knowledge.facts_import import BATCH, FailedRow, ImportReport, import_file, import_rows
from app.store import bases, documents, entities, facts, proposals, reading
from app.store.chunks import NewChunk
from app.store.documents import NewDocument
from app.store.engine import Database
from app.store.entities import EntityFilter, EntityRecord
from app.store.facts import FactFilter, FactRecord
from app.store.ids import new_id
from app.store.proposals import NewProposal, ProposalRecord
from app.store.reading import Content
from tests.harness.postgres import PostgresServer


@pytest.fixture(scope="module")
async def database(postgres: PostgresServer) -> AsyncGenerator[Database]:
    """A database whose queue belongs to these tests."""
    async with postgres.new_database() as url:
        own = Database(url)
        yield own
        await own.aclose()


@pytest.fixture
async def base(database: Database) -> AsyncGenerator[str]:
    """The id of a base of the test's own."""
    name = f"b{new_id()}"
    made = await bases.create(database, name)
    assert made is not None
    yield made.id
    await bases.delete(database, name)


def row(subject: str, predicate: str, object_: str | None = None, **fields: object) -> FactRow:
    """A good row; `from_` and `to` are its dates."""
    given = {"subject": subject, "predicate": predicate, **fields}
    if object_ is not None:
        given["object"] = object_
    if "from_" in given:
        given["from"] = given.pop("from_")
    parsed = parse_row(given)
    assert isinstance(parsed, FactRow), parsed
    return parsed


async def take(database: Database, base: str, *rows: FactRow, again: bool = False) -> ImportReport:
    """Imports rows as the lines 1, 2, 3 …"""
    read = [ReadRow(n, one) for n, one in enumerate(rows, start=1)]
    return await import_rows(database, base, read, origin="import", again=again)


async def known(database: Database, base: str) -> dict[str, EntityRecord]:
    """The base's entities by name and, where they have them, type and disambiguator."""
    found, _ = await entities.find(database, base, EntityFilter(), limit=100, offset=0)
    return {"/".join(filter(None, (e.name, e.type, e.disambiguator))): e for e in (one.entity for one in found)}


def said(found: Sequence[FactRecord]) -> list[str]:
    """Facts in words."""
    return [f"{f.subject.name} {f.claim.predicate} {f.object.name if f.object else f.claim.value}" for f in found]


async def believed(database: Database, base: str, as_of: datetime | None = None) -> list[FactRecord]:
    return list((await facts.find(database, base, FactFilter(as_of=as_of), limit=200)).facts)


async def rows_of(database: Database, base: str) -> list[tuple[str, str]]:
    """Every row of the base's memory: its status, and whether it is believed."""
    async with database.read() as connection:
        found = await connection.execute(
            text("SELECT status, superseded_at IS NULL FROM facts WHERE base_id = CAST(:base AS uuid) ORDER BY id"),
            {"base": base},
        )
        return [(status, "live" if live else "closed") for status, live in found]


async def ready(database: Database, base: str, name: str, *passages: str) -> None:
    """A document that is read, with these passages."""
    content = "".join(passages)

    async def data() -> AsyncGenerator[bytes]:
        yield content.encode()

    stored = await documents.add(database, NewDocument(base, name, new_id(), "text/plain", len(content)), data())
    claimed = await reading.claim(database, lease_s=60)
    assert stored is not None
    assert claimed is not None
    chunks = [NewChunk("", None, passage, "'x':1") for passage in passages]
    assert await reading.finish(database, claimed, Content(name, "utf-8", content, chunks, 1)) is not None


BOSS = row("Sam Altman", "chief executive of", "OpenAI", from_="2019", to="2023-11-17", object_type="company")


async def test_importing_again_changes_nothing(database: Database, base: str, tmp_path: Path) -> None:
    """Issue 4 item 2: the same file, the same rows twice in it, and a row that only differs in case and spacing."""
    path = tmp_path / "facts.jsonl"
    lines = [BOSS.as_json(), {**BOSS.as_json(), "subject": "sam  ALTMAN", "confidence": 0.5}, {"subject": "x"}]
    path.write_text("\n".join(map(json.dumps, lines)))
    failed = (FailedRow(3, "predicate: Field required"),)
    first = await import_file(database, base, path)
    assert first == ImportReport(added=1, known=1, without_evidence=1, failed_count=1, failed=failed)
    assert first.rows == 3
    assert await import_file(database, base, path) == ImportReport(known=2, failed_count=1, failed=failed)
    assert await rows_of(database, base) == [("asserted", "live")]


async def test_importers_of_the_same_file_at_once_give_each_fact_once(
    database: Database, base: str, tmp_path: Path
) -> None:
    """Two batches each, in which the same entities appear with and without their types."""
    path = tmp_path / "facts.jsonl"
    lines: list[dict[str, object]] = [
        {"subject": f"Person {n % 40}", "predicate": "met", "object": f"Person {n % 40 + 40}", "from": str(1500 + n)}
        for n in range(BATCH + 100)
    ]
    for line in lines[::3]:
        line["subject_type"] = "person"
    path.write_text("\n".join(map(json.dumps, lines)))
    told: list[tuple[int, int]] = []
    reports = await asyncio.gather(
        *(import_file(database, base, path, on_batch=lambda r, line: told.append((r.rows, line))) for _ in range(4))
    )
    assert sum(report.added for report in reports) == len(lines)
    assert [report.rows for report in reports] == [len(lines)] * 4
    assert sorted(told) == [(BATCH, BATCH)] * 4 + [(len(lines), len(lines))] * 4
    assert await rows_of(database, base) == [("asserted", "live")] * len(lines)
    assert len(await known(database, base)) == 80


async def test_a_name_finds_the_entity_it_can_only_mean(database: Database, base: str) -> None:
    """Without a type the only one of that name, by an alias the only one called so; a type is learnt."""
    await take(
        database,
        base,
        row("DeepSeek", "based in", value="Hangzhou"),
        row("deepseek", "released", "R1", subject_type="company", subject_aliases=["深度求索", "DEEPSEEK"]),
        row("深度求索", "released", "V3"),
        row("ＤeepSeek", "released", "V2", subject_aliases=["DeepSeek AI", "深度求索"]),
    )
    assert await known(database, base) == {
        "DeepSeek/company": EntityRecord(
            (await known(database, base))["DeepSeek/company"].id, "DeepSeek", ("深度求索", "DeepSeek AI"), "company", ""
        ),
        **{name: one for name, one in (await known(database, base)).items() if name in {"R1", "V2", "V3"}},
    }


async def test_namesakes_are_told_apart_or_the_row_is_refused(database: Database, base: str) -> None:
    """A type or a disambiguator decides; a bare name that may mean several is not guessed. Good rows go in."""
    report = await take(
        database,
        base,
        row("Claude", "made by", value="Anthropic", subject_type="model"),
        row("Claude", "painted", value="Water Lilies", subject_type="person", subject_disambiguator="Monet"),
        row("Claude", "said", value="hello"),
        row("Claude", "was", value="French", subject_disambiguator="Monet"),
        row("Claude", "knows", "claude", object_disambiguator="Monet", subject_type="model"),
        row("Claude", "is", "Claude", subject_type="model", object_type="model"),
    )
    assert report.added == 4
    assert report.failed == (
        FailedRow(
            3,
            "'Claude' may be any of 2 entities (Claude: model, Claude: person, Monet); "
            "give its type and, where it has one, its disambiguator",
        ),
        FailedRow(6, "subject and object are the same entity"),
    )
    assert set(await known(database, base)) == {"Claude/model", "Claude/person/Monet"}


async def test_a_row_that_fails_makes_no_entity(database: Database, base: str) -> None:
    """Both of its names are looked at before anything is made."""
    await take(database, base, row("X", "is", value="1", subject_type="a"), row("X", "is", value="1", subject_type="b"))
    report = await take(database, base, row("Somebody new", "knows", "X"))
    assert (report.added, report.failed_count) == (0, 1)
    assert set(await known(database, base)) == {"X/a", "X/b"}


async def test_a_quote_is_found_in_the_newest_version_of_its_document(database: Database, base: str) -> None:
    """White space aside; what isn't found is stored with its quote and counted. A passage's id is evidence too."""
    await ready(database, base, "board.md", "Six people\n sat  on it.", "Four of them decided.")
    report = await take(
        database,
        base,
        row("Board", "had", value="six members", evidence="board.md", quote="Six people sat on it."),
        row("Board", "had", value="five members", evidence="board.md", quote="Five people sat on it."),
        row("Board", "had", value="no page", evidence="other.md", quote="Six people sat on it."),
        row("Board", "had", value="no quote", evidence="board.md"),
    )
    assert report == ImportReport(added=4, without_evidence=3)
    first = (await believed(database, base))[0]
    assert first.evidence is not None
    assert (first.evidence.document, first.evidence.live, first.quote) == ("board.md", True, "Six people sat on it.")
    assert [fact.evidence for fact in (await believed(database, base))[1:]] == [None] * 3
    again = row("Board", "met in", value="San Francisco", evidence=first.evidence.chunk_id.upper())
    assert await take(database, base, again) == ImportReport(added=1)


async def test_a_fact_whose_passage_was_superseded_finds_a_new_one(database: Database, base: str) -> None:
    """What the fact says stays; only where it stands is renewed, when its row comes again."""
    stands = row("Board", "had", value="six members", evidence="board.md", quote="Six people sat on it.")
    await ready(database, base, "board.md", "Six people sat on it.")
    await take(database, base, stands)
    await ready(database, base, "board.md", "A new beginning.", "Six people sat on it.")
    (old,) = await believed(database, base)
    assert old.evidence is not None
    assert not old.evidence.live
    assert await take(database, base, stands) == ImportReport(known=1, evidence_found=1)
    assert await take(database, base, stands) == ImportReport(known=1)
    (new,) = await believed(database, base)
    assert new.evidence is not None
    assert (new.id, new.recorded_at, new.evidence.live) == (old.id, old.recorded_at, True)


@pytest.mark.parametrize(
    ("dates", "at", "holds", "undecided"),
    [
        ({"from_": "2019", "to": "2023-11-17"}, "2023-11-17", True, False),
        ({"from_": "2019", "to": "2023-11-17"}, "2023-11-18", False, False),
        ({"from_": "2019", "to": "2023-11-17"}, "2018-12-31", False, False),
        ({"from_": "2019", "to": "2023-11"}, "2023-11-30", True, False),
        ({"from_": "2019", "to": "open"}, "2090-01-01", True, False),
        ({"from_": "2019"}, "2019-12-31", True, False),
        ({"from_": "2019"}, "2020-01-01", False, True),
        ({"from_": "2019-02"}, "2018-12-31", False, False),
        ({"to": "2023-11"}, "2023-11-01", True, False),
        ({"to": "2023-11"}, "2023-10-31", False, True),
        ({"to": "2023-11"}, "2023-12-01", False, False),
        ({"to": "open"}, "2020-01-01", False, True),
        ({"to": "open"}, "2090-01-01", True, False),
        ({}, "2020-01-01", False, True),
    ],
)
async def test_an_unknown_date_is_not_an_open_one(
    database: Database, base: str, dates: dict[str, object], at: str, holds: bool, undecided: bool
) -> None:
    """Decision 0008: what is known to have held, and what may have."""
    await take(database, base, row("A", "led", "B", **dates))
    day = date.fromisoformat(at)
    page = await facts.find(database, base, FactFilter(at=(day, day)), limit=10)
    assert (len(page.facts), page.total, page.undecided) == (int(holds), int(holds), int(undecided))


async def test_a_correction_closes_a_row_and_opens_another(database: Database, base: str) -> None:
    """Issue 4 item 1: both clocks together tell what was believed about a time before and after it."""
    await take(database, base, BOSS)
    (old,) = await believed(database, base)
    right = row("Sam Altman", "chief executive of", "OpenAI", from_="2019", to="2023-11", confidence=0.9)
    new = await corrections.correct(database, base, old.id, right)
    assert new.superseded_at is None
    assert (new.origin, new.confidence, new.claim.validity.end) == ("api", 0.9, date(2023, 11, 30))
    assert await rows_of(database, base) == [("corrected", "closed"), ("asserted", "live")]
    before = await facts.find(
        database,
        base,
        FactFilter(as_of=new.recorded_at, at=(date(2023, 11, 20), date(2023, 11, 20))),
        limit=9,
    )
    after = await facts.find(database, base, FactFilter(at=(date(2023, 11, 20), date(2023, 11, 20))), limit=9)
    assert (before.facts, [fact.id for fact in after.facts]) == ((), [new.id])
    (was,) = await believed(database, base, as_of=new.recorded_at)
    assert (was.id, was.superseded_at, was.superseded_by, was.status) == (old.id, new.recorded_at, new.id, "corrected")
    assert await believed(database, base, as_of=old.recorded_at) == []
    with pytest.raises(AppError) as refusal:
        await corrections.correct(database, base, old.id, right)
    assert refusal.value.code == RefusalCode.CONFLICT


async def test_a_correction_to_what_is_believed_already_points_there(database: Database, base: str) -> None:
    """And one that only changes the confidence is a row of its own."""
    right = row("A", "led", "B", from_="2020")
    await take(database, base, row("A", "led", "B", from_="2019"), right)
    wrong, other = await believed(database, base)
    assert (await corrections.correct(database, base, wrong.id, right)).id == other.id
    surer = await corrections.correct(database, base, other.id, row("A", "led", "B", from_="2020", confidence=0.4))
    assert surer.id not in {wrong.id, other.id}
    assert [fact.id for fact in await believed(database, base)] == [surer.id]


async def test_a_correction_that_cannot_be_recorded_changes_nothing(database: Database, base: str) -> None:
    """The old row stays believed: one transaction."""
    await take(database, base, row("X", "is", value="1", subject_type="a"), row("X", "is", value="1", subject_type="b"))
    (one, _) = await believed(database, base)
    with pytest.raises(AppError) as refusal:
        await corrections.correct(database, base, one.id, row("X", "is", value="2"))
    assert refusal.value.code == RefusalCode.INVALID
    assert await rows_of(database, base) == [("asserted", "live")] * 2


async def test_what_a_person_rejected_is_not_brought_back_by_a_file(database: Database, base: str) -> None:
    """Only a person's own word does. A row may itself say that a fact is rejected."""
    await take(database, base, BOSS)
    (fact,) = await believed(database, base)
    closed = await corrections.reject(database, base, fact.id)
    assert (closed.status, closed.superseded_by) == ("rejected", None)
    assert await take(database, base, BOSS) == ImportReport(known=1)
    assert await believed(database, base) == []
    assert await take(database, base, BOSS, again=True) == ImportReport(added=1, without_evidence=1)
    no = BOSS.model_copy(update={"status": "rejected"})
    assert await take(database, base, no) == ImportReport(rejected=1)
    assert await take(database, base, no, BOSS) == ImportReport(known=2)
    assert await rows_of(database, base) == [("rejected", "closed")] * 2


async def test_a_rejection_of_what_was_never_said_is_remembered(database: Database, base: str) -> None:
    """It is not believed at any time, and keeps later files from saying it."""
    no = BOSS.model_copy(update={"status": "rejected"})
    assert await take(database, base, no, BOSS) == ImportReport(added=1, known=1, without_evidence=1)
    assert await rows_of(database, base) == [("rejected", "closed")]
    assert await believed(database, base, as_of=datetime.now(UTC)) == []
    other = row("A", "led", "B")
    both = (other, other.model_copy(update={"status": "rejected"}))
    await take(database, base, *both, again=True)
    assert await believed(database, base) == []


async def test_merging_moves_facts_and_names(database: Database, base: str) -> None:
    """Facts of the one are closed and opened on the other, what both had or what linked them is only closed."""
    await take(
        database,
        base,
        row("OpenAI Inc", "founded in", value="2015", subject_type="org", subject_aliases=["OAI"]),
        row("OpenAI", "founded in", value="2015", subject_type="company"),
        row("Sam Altman", "leads", "OpenAI Inc"),
        row("OpenAI Inc", "same as", "OpenAI", object_type="company"),
    )
    before = await known(database, base)
    merged = await corrections.merge(database, base, before["OpenAI Inc/org"].id, before["OpenAI/company"].id)
    assert (merged.name, merged.aliases) == ("OpenAI", ("OpenAI Inc", "OAI"))
    assert said(await believed(database, base)) == ["OpenAI founded in 2015", "Sam Altman leads OpenAI"]
    assert sorted(await rows_of(database, base)) == [("asserted", "live")] * 2 + [("merged", "closed")] * 3
    assert set(await known(database, base)) == {"OpenAI/company", "Sam Altman"}
    moment = (await believed(database, base))[1].recorded_at
    assert len(await believed(database, base, as_of=moment)) == 4


async def test_a_merged_name_stands_for_the_one_that_took_it(database: Database, base: str) -> None:
    """Importing the old rows again changes nothing, by name, type and alias; chains of merges end at the last."""
    rows = (
        row("A", "likes", value="tea", subject_type="person", subject_aliases=["Al"]),
        row("B", "likes", value="milk", subject_type="robot"),
        row("C", "likes", value="rum", subject_type="person"),
    )
    await take(database, base, *rows)
    ids = {name: one.id for name, one in (await known(database, base)).items()}
    await corrections.merge(database, base, ids["A/person"], ids["B/robot"])
    await corrections.merge(database, base, ids["B/robot"], ids["C/person"])
    assert await take(database, base, *rows, row("Al", "likes", value="milk")) == ImportReport(known=4)
    assert said(await believed(database, base)) == ["C likes rum", "C likes milk", "C likes tea"]
    with pytest.raises(AppError) as refusal:
        await corrections.merge(database, base, ids["C/person"], ids["A/person"])
    assert refusal.value.code == RefusalCode.CONFLICT


async def test_what_is_not_there_is_said_to_be_missing(database: Database, base: str) -> None:
    """Facts, entities and proposals of another base too; and a base that is gone."""
    await take(database, base, BOSS)
    (fact,) = await believed(database, base)
    other = await bases.create(database, f"o{new_id()}")
    assert other is not None
    attempts = (
        corrections.correct(database, other.id, fact.id, BOSS),
        corrections.reject(database, other.id, fact.id),
        corrections.merge(database, other.id, fact.subject.id, new_id()),
        corrections.accept(database, other.id, new_id(), decided_by="me"),
        take(database, new_id(), BOSS),
    )
    for attempt in attempts:
        with pytest.raises(AppError) as refusal:
            await attempt
        assert refusal.value.code == RefusalCode.NOT_FOUND
    await bases.delete(database, other.name)


def proposal(fact: FactRow, **fields: str) -> NewProposal:
    given = {"sentence": "He said so.", "origin": "remember", "proposed_by": "me", "idempotency_key": "k", **fields}
    return NewProposal(fact.as_json(), **given)  # pyright: ignore[reportArgumentType]


async def test_the_same_proposal_is_made_once(database: Database, base: str) -> None:
    """By its key, however many make it at once; the first stays as it was."""
    made = await asyncio.gather(
        *(proposals.propose(database, base, [proposal(BOSS), proposal(BOSS, idempotency_key="l")]) for _ in range(5))
    )
    assert len({tuple(one.id for one in pair) for pair in made}) == 1
    assert await proposals.propose(database, base, [proposal(row("A", "led", "B"))]) == [made[0][0]]
    assert await proposals.propose(database, base, []) == []
    waiting, total = await proposals.find(database, base, status="pending", limit=1, offset=0)
    assert (len(waiting), total) == (1, 2)


async def test_a_nod_makes_the_fact_once(database: Database, base: str) -> None:
    """Its origin is the proposal's, its evidence the sentence; ten nods at once are one, the others a conflict."""
    await ready(database, base, "note.md", "He said so.")
    async with database.read() as connection:
        chunk_id = str(
            await connection.scalar(text("SELECT id FROM chunks WHERE base_id = CAST(:b AS uuid)"), {"b": base})
        )
    (waiting,) = await proposals.propose(database, base, [proposal(BOSS, chunk_id=chunk_id, origin="extraction")])
    nods = await asyncio.gather(
        *(corrections.accept(database, base, waiting.id, decided_by=f"p{n}") for n in range(10)),
        return_exceptions=True,
    )
    (accepted,) = [nod for nod in nods if isinstance(nod, ProposalRecord)]
    refused = [nod.code for nod in nods if isinstance(nod, AppError)]
    assert refused == [RefusalCode.CONFLICT] * 9
    (fact,) = await believed(database, base)
    assert (fact.id, fact.origin, fact.quote) == (accepted.fact_id, "extraction", "He said so.")
    assert fact.evidence is not None
    assert fact.evidence.chunk_id == chunk_id
    assert (accepted.status, accepted.decided_at is not None) == ("accepted", True)


async def test_a_refused_proposal_makes_no_fact(database: Database, base: str) -> None:
    """And can't be accepted afterwards."""
    (waiting,) = await proposals.propose(database, base, [proposal(BOSS)])
    refused = await corrections.refuse(database, base, waiting.id, decided_by="me")
    assert (refused.status, refused.decided_by, refused.fact_id) == ("refused", "me", None)
    with pytest.raises(AppError) as refusal:
        await corrections.accept(database, base, waiting.id, decided_by="me")
    assert refusal.value.code == RefusalCode.CONFLICT
    assert await believed(database, base) == []


async def test_a_proposal_that_can_not_be_recorded_waits_on(database: Database, base: str) -> None:
    """The refusal says why."""
    await take(database, base, row("X", "is", value="1", subject_type="a"), row("X", "is", value="1", subject_type="b"))
    (waiting,) = await proposals.propose(database, base, [proposal(row("X", "is", value="2"))])
    with pytest.raises(AppError) as refusal:
        await corrections.accept(database, base, waiting.id, decided_by="me")
    assert refusal.value.code == RefusalCode.INVALID
    assert refusal.value.message.startswith("The fact can't be recorded: 'X' may be any of 2 entities")
    assert (await proposals.find(database, base, status="pending", limit=9, offset=0))[1] == 1


async def test_entities_are_found_by_any_part_of_a_name(database: Database, base: str) -> None:
    """The exact name first, then beginnings; what means something in LIKE is a plain sign; facts are counted."""
    await take(
        database,
        base,
        row("100%_sure", "is", value="odd", subject_type="song"),
        row("1000 sure", "is", value="even"),
        row("Open", "is", value="x"),
        row("OpenAI", "is", value="x", subject_aliases=["开放人工智能"]),
        row("An open thing", "likes", "OpenAI"),
    )

    async def names(query: str, type_: str | None = None) -> list[tuple[str, int]]:
        found, total = await entities.find(database, base, EntityFilter(query, type_), limit=9, offset=0)
        assert total == len(found)
        return [(one.entity.name, one.fact_count) for one in found]

    assert await names("open") == [("Open", 1), ("OpenAI", 2), ("An open thing", 1)]
    assert await names("人工") == [("OpenAI", 2)]
    assert await names("0%_s") == [("100%_sure", 1)]
    assert await names("\\") == []
    assert await names("", "song") == [("100%_sure", 1)]


async def test_a_deleted_document_takes_the_passage_and_leaves_the_fact(database: Database, base: str) -> None:
    """Its quote goes with the passage (decision 0021); a merge carries passages that are still there."""
    await ready(database, base, "a.md", "A leads B.")
    await ready(database, base, "b.md", "A left C.")
    await take(
        database,
        base,
        row("A", "leads", "B", evidence="a.md", quote="A leads B."),
        row("A", "left", "C", evidence="b.md", quote="A left C."),
    )
    (first, second) = await believed(database, base)
    assert first.evidence is not None
    assert second.evidence is not None
    await documents.delete(database, base, first.evidence.document_id)
    await take(database, base, row("D", "is", value="new"))
    ids = {name: one.id for name, one in (await known(database, base)).items()}
    await corrections.merge(database, base, ids["A"], ids["D"])
    moved = {fact.claim.predicate: (fact.quote, fact.evidence) for fact in await believed(database, base)}
    assert moved == {"leads": ("", None), "left": ("A left C.", second.evidence), "is": ("", None)}
