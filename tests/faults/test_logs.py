"""What the log of a process says is safe to keep, and what a server imports. Source: issue 9 item 4."""

import json
import subprocess
import sys

PROGRAM = """
import sys
import structlog
import app.serve
from app.logs import configure_logging

def fail(question):
    key = "sk-" + "verysecret"
    raise ValueError(len(question) + len(key))

configure_logging("info")
try:
    fail("what only the " + "reader may know")
except ValueError:
    structlog.get_logger().exception("turn_failed")
optional = ("app.turn.otel", "opentelemetry.sdk.trace", "opentelemetry.exporter")
print([name for name in sys.modules if name.startswith(optional)])
"""


def test_a_traceback_in_the_log_holds_no_values() -> None:
    """Locals of the frames are questions, documents and keys."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    logged = json.loads(line)
    assert (logged["event"], logged["exception"][0]["exc_type"]) == ("turn_failed", "ValueError")
    assert "verysecret" not in line
    assert "reader may know" not in line
    assert done.stdout.strip() == "[]"  # tracing is imported only where it is asked for
