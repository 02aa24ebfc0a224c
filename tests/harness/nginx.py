"""nginx with the configuration that the project ships, before replicas of a test's own on local ports."""

import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.harness.programs import installed, listening
from tests.harness.replica import free_port

SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def render(folder: Path, port: int, replicas: Sequence[int], changes: Mapping[str, str] | None = None) -> Path:
    """The shipped files in a folder, with these ports for theirs; the main file, which includes them as nginx's does.

    `changes` are directives with other values than the shipped ones, such as a time that a test can wait for.
    """
    rules = (SHIPPED / "turnstream.conf").read_text(encoding="utf-8")
    for name, value in {"listen": str(port), **(changes or {})}.items():
        rules, count = re.subn(rf"^(\s*){name} [^;]+;", rf"\g<1>{name} {value};", rules, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{name} is given {count} times in turnstream.conf")
    included = (SHIPPED / "replicas.inc").read_text(encoding="utf-8")
    [line] = re.findall(r"^server (\S+) resolve (.*);$", included, re.MULTILINE)
    servers = [f"server 127.0.0.1:{replica} {line[1]};\n" for replica in replicas]
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "turnstream.conf").write_text(rules, encoding="utf-8")
    (folder / "conf.d" / "replicas.inc").write_text("".join(servers), encoding="utf-8")
    temporary = "".join(f"    {name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    folder.chmod(0o755)  # started by root, nginx gives its workers another account
    main = folder / "nginx.conf"
    main.write_text(
        f"daemon off;\npid {folder}/pid;\nworker_processes 2;\nevents {{\n}}\n"
        f"http {{\n{temporary}    include conf.d/*.conf;\n}}\n",
        encoding="utf-8",
    )
    return main


@asynccontextmanager
async def nginx(*replicas: int, changes: Mapping[str, str] | None = None) -> AsyncGenerator[str, None]:
    """The address of an nginx before replicas on these ports."""
    program = installed("nginx")
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="turnstream-nginx-"))
    try:
        main = render(folder, port, replicas, changes)
        argv = [program, "-c", str(main), "-p", str(folder), "-e", str(folder / "error.log")]
        async with listening(argv, port, folder / "log"):
            yield f"http://127.0.0.1:{port}"
    finally:
        shutil.rmtree(folder)
