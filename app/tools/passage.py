"""How a passage looks to the model: a numbered head line, then the text with a bar before every line.

    [2] board.md › The board in November 2023 (document 0190…)
    | On 17 November 2023 the board of OpenAI removed Sam Altman …

The bar is put before every line by code, so a document can't close its own quotation or imitate a status
prefix, whatever it holds (case K11). The offline model (app/llm/extractive.py) reads the same shape.
"""

from app.tools.tool import NumberedSource, Source


def render(n: int, source: Source | NumberedSource, text: str) -> str:
    """One passage as text of an observation."""
    where = f"{source.title} › {source.locator}" if source.locator else source.title
    document = f" (document {source.document_id})" if source.document_id else ""
    head = " ".join(f"[{n}] {where}{document}".split())
    return "\n".join([head, *(f"| {line}" for line in text.splitlines() if line.strip())])
