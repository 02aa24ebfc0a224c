"""The two clocks as SQL, over a row of `facts f`: what was believed, and what held. Source: decision 0008.

Parameters: :as_of, an instant or null; :at_first and :at_last, days or null.
"""

AS_OF = "coalesce(CAST(:as_of AS timestamptz), 'infinity')"
"""The record time that a read asks for; without one, after everything."""

BELIEVED = f"f.recorded_at < {AS_OF} AND (f.superseded_at IS NULL OR f.superseded_at >= {AS_OF})"
"""Whether the base believed the row then."""

POSSIBLE = """((f.valid_from IS NULL OR f.valid_from <= CAST(:at_last AS date))
    AND (f.valid_to IS NULL OR f.valid_to >= CAST(:at_first AS date)))"""
"""Whether nothing that is known keeps the row from having held on a day from :at_first to :at_last."""

HOLDS = """CASE
    WHEN f.valid_from IS NOT NULL AND (f.valid_to IS NOT NULL OR f.valid_to_precision = 'open')
        THEN f.valid_from <= CAST(:at_last AS date) AND coalesce(f.valid_to, 'infinity') >= CAST(:at_first AS date)
    WHEN f.valid_from IS NOT NULL
        THEN f.valid_from <= CAST(:at_last AS date)
            AND CAST(:at_first AS date) < f.valid_from + CAST('1 ' || f.valid_from_precision AS interval)
    WHEN f.valid_to IS NOT NULL
        THEN f.valid_to >= CAST(:at_first AS date)
            AND CAST(:at_last AS date) >= date_trunc(f.valid_to_precision, CAST(f.valid_to AS timestamp))
    WHEN f.valid_to_precision = 'open' THEN CAST(:at_last AS date) >= CAST(f.recorded_at AT TIME ZONE 'UTC' AS date)
    ELSE false END"""
"""Whether the row is known to have held on a day from :at_first to :at_last.

An unknown end is not an open one: such a fact is known to hold only when it began, one of unknown start only when it
ended, or, still open, from when it was recorded. Without any date nothing is known.
"""

HELD = f"(CAST(:at_first AS date) IS NULL OR {HOLDS})"
"""`HOLDS`, and true for every row where no days are asked for."""
