"""What a person decides about the graph: a fact corrected or rejected, two entities merged, a proposal nodded at.

Nothing is deleted and no row is changed in what it says: each decision closes rows and opens others, in one
transaction and at one record time, so that `as_of` shows the base before and after it (decision 0008).
"""

from dataclasses import replace
from typing import Literal

from app.errors import AppError, RefusalCode
from app.knowledge.fact_rows import FactRow, ReadRow, parse_row
from app.knowledge.facts_import import Recorded, record
from app.knowledge.names import with_aliases
from app.store import audit, entities, evidence, facts, proposals
from app.store.audit import Action, Line
from app.store.engine import Database
from app.store.entities import EntityRecord
from app.store.facts import Claim, FactOrigin, FactRecord, NewFact
from app.store.graph_write import GraphWrite, writing
from app.store.ids import new_id
from app.store.proposals import ProposalRecord


async def correct(database: Database, base_id: str, fact_id: str, row: FactRow, *, by: str = audit.LOCAL) -> FactRecord:
    """Closes a fact and records what is right in its place; gives the new fact.

    Raises:
        AppError: NOT_FOUND, CONFLICT for a fact that is closed already, INVALID for a row that can't be recorded.
    """
    if row.status == "rejected":
        raise AppError(RefusalCode.INVALID, "A correction says what is right; to reject the fact, reject it.")
    async with writing(database, base_id, by=by) as graph:
        await _believed(graph, fact_id)
        await facts.close(graph, {fact_id: None}, status="corrected")
        recorded = await record(graph, [ReadRow(1, row)], origin="api", again=True)
        successor = _only_fact(recorded)
        await facts.close(graph, {fact_id: successor}, status="corrected")
        await _audit(graph, Action.FACT_CORRECTED, fact_id, {"became": successor})
        return await _get(graph, successor)


async def reject(database: Database, base_id: str, fact_id: str, *, by: str = audit.LOCAL) -> FactRecord:
    """Ends the belief in a fact; gives it as it is then.

    Raises:
        AppError: NOT_FOUND, CONFLICT for a fact that is closed already.
    """
    async with writing(database, base_id, by=by) as graph:
        await _believed(graph, fact_id)
        await facts.close(graph, {fact_id: None}, status="rejected")
        await _audit(graph, Action.FACT_REJECTED, fact_id)
        return await _get(graph, fact_id)


async def merge(database: Database, base_id: str, from_id: str, into_id: str, *, by: str = audit.LOCAL) -> EntityRecord:
    """Makes two entities one: the facts of the first are closed as merged and opened on the second.

    The second learns the names of the first, which from then on stands for the second. A fact between the two, or
    one that the second has already, is closed and not opened again. Gives the second.

    Raises:
        AppError: NOT_FOUND, INVALID for an entity and itself, CONFLICT where one of them was merged already.
    """
    if from_id == into_id:
        raise AppError(RefusalCode.INVALID, "An entity can't be merged into itself.")
    async with writing(database, base_id, by=by) as graph:
        both = await entities.get_many(graph, (from_id, into_id))
        if len(both) < 2:
            raise AppError(RefusalCode.NOT_FOUND, "There is no such entity in this base.")
        merged, into = both[from_id], both[into_id]
        for entity in (merged, into):
            if entity.merged_into is not None:
                raise AppError(RefusalCode.CONFLICT, f"{entity.name!r} was merged into another entity already.")
        await _move_facts(graph, merged, into)
        await entities.redirect(graph, merged=from_id, into=into_id)
        taught = with_aliases(into, (merged.name, *merged.aliases))
        await entities.save(graph, [taught])
        await _audit(graph, Action.ENTITY_MERGED, from_id, {"into": into_id})
        return taught


async def accept(
    database: Database,
    base_id: str,
    proposal_id: str,
    *,
    decided_by: str,
    instead: dict[str, object] | None = None,
) -> ProposalRecord:
    """Records the proposed fact, or `instead`, on the nod of a person; gives the proposal as it is decided.

    Raises:
        AppError: NOT_FOUND, CONFLICT where it is decided already, INVALID where the fact can't be recorded, which
            leaves the proposal undecided.
    """
    async with writing(database, base_id, by=decided_by) as graph:
        proposal = await _pending(graph, proposal_id)
        row = parse_row(instead if instead is not None else proposal.fact)
        if isinstance(row, FactRow):
            quote = row.quote or " ".join(proposal.sentence.split())
            row = row.model_copy(update={"quote": quote, "evidence": row.evidence or proposal.chunk_id})
        origin: FactOrigin = proposal.origin
        recorded = await record(graph, [ReadRow(1, row)], origin=origin, again=True)
        return await _decide(graph, proposal, "accepted", decided_by=decided_by, fact_id=_only_fact(recorded))


async def refuse(database: Database, base_id: str, proposal_id: str, *, decided_by: str) -> ProposalRecord:
    """Decides that a proposal becomes no fact.

    Raises:
        AppError: NOT_FOUND, CONFLICT where it is decided already.
    """
    async with writing(database, base_id, by=decided_by) as graph:
        return await _decide(graph, await _pending(graph, proposal_id), "refused", decided_by=decided_by, fact_id=None)


async def _believed(graph: GraphWrite, fact_id: str) -> FactRecord:
    fact = await _get(graph, fact_id)
    if fact.superseded_at is not None:
        raise AppError(RefusalCode.CONFLICT, f"The fact was {fact.status} already; ask for what is believed now.")
    return fact


async def _get(graph: GraphWrite, fact_id: str) -> FactRecord:
    fact = await facts.get(graph, fact_id)
    if fact is None:
        raise AppError(RefusalCode.NOT_FOUND, "There is no such fact in this base.")
    return fact


def _only_fact(recorded: Recorded) -> str:
    """The id of the fact of the only row."""
    if recorded.report.failed:
        raise AppError(
            RefusalCode.INVALID, f"The fact can't be recorded: {recorded.report.failed[0].error.rstrip('.')}."
        )
    (fact_id,) = recorded.fact_ids.values()
    return fact_id


async def _move_facts(graph: GraphWrite, merged: EntityRecord, into: EntityRecord) -> None:
    ids = {merged.id: into.id}
    moved: dict[str, Claim] = {}
    live = await facts.live_of(graph, merged.id)
    for fact in live:
        claim = fact.claim
        moved[fact.id] = replace(
            claim,
            subject_id=ids.get(claim.subject_id, claim.subject_id),
            object_id=None if claim.object_id is None else ids.get(claim.object_id, claim.object_id),
        )
    known = await facts.known(graph, moved.values())
    successors = {key: fact.id for key, fact in known.items() if fact.live}
    passages = await evidence.keep(graph, {fact.evidence.chunk_id for fact in live if fact.evidence})
    opened: list[NewFact] = []
    for fact in live:
        claim = moved[fact.id]
        if claim.subject_id != claim.object_id and claim.fact_key not in successors:
            lost = fact.evidence is not None and fact.evidence.chunk_id not in passages  # deleted just now
            chunk_id = None if fact.evidence is None or lost else fact.evidence.chunk_id
            quote = "" if lost else fact.quote
            opened.append(NewFact(new_id(), claim, fact.confidence, chunk_id, quote, fact.origin))
            successors[claim.fact_key] = opened[-1].id
    await facts.close(graph, {fact.id: successors.get(moved[fact.id].fact_key) for fact in live}, status="merged")
    await facts.add(graph, opened)


async def _pending(graph: GraphWrite, proposal_id: str) -> ProposalRecord:
    proposal = await proposals.get(graph.connection, graph.base_id, proposal_id)
    if proposal is None:
        raise AppError(RefusalCode.NOT_FOUND, "There is no such proposal in this base.")
    if proposal.status != "pending":
        raise AppError(RefusalCode.CONFLICT, f"The proposal was {proposal.status} already.")
    return proposal


async def _decide(
    graph: GraphWrite,
    proposal: ProposalRecord,
    status: Literal["accepted", "refused"],
    *,
    decided_by: str,
    fact_id: str | None,
) -> ProposalRecord:
    decided = await proposals.decide(graph.connection, proposal, status=status, decided_by=decided_by, fact_id=fact_id)
    if decided is None:
        raise AppError(RefusalCode.CONFLICT, "The proposal was decided already.")
    action = Action.PROPOSAL_ACCEPTED if status == "accepted" else Action.PROPOSAL_REFUSED
    await _audit(graph, action, proposal.id, {} if fact_id is None else {"fact": fact_id})
    return decided


async def _audit(graph: GraphWrite, action: Action, object_id: str, detail: dict[str, object] | None = None) -> None:
    await audit.write(graph.connection, [Line(graph.by, action, graph.base_id, object_id, detail or {})])
