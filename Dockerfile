# The server as an image. It uses TURNSTREAM_DATABASE_URL, or an embedded Postgres under /data without it.
# HOST is 0.0.0.0 here, so that a published port reaches it; the server then refuses to start without
# authentication unless TURNSTREAM_OPEN_NETWORK=true says that the port is published on loopback only.

FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY app app
COPY migrations migrations
COPY sample sample
COPY docs/manual docs/manual
COPY web web
RUN ["python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "/wheels", "."]
RUN ["python", "-m", "venv", "/opt/turnstream"]
RUN /opt/turnstream/bin/python -m pip install /wheels/*.whl

FROM python:3.13-slim
RUN groupadd --gid 10001 turnstream \
    && useradd --uid 10001 --gid turnstream --home-dir /data --no-create-home --shell /usr/sbin/nologin turnstream \
    && install -d -m 0700 -o turnstream -g turnstream /data
COPY --from=build /opt/turnstream /opt/turnstream
ENV PATH=/opt/turnstream/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TURNSTREAM_DATA_DIR=/data \
    TURNSTREAM_HOST=0.0.0.0 \
    TURNSTREAM_PORT=8000
WORKDIR /data
USER turnstream
VOLUME ["/data"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ['TURNSTREAM_PORT'] + '/healthz', timeout=2).read()"]
CMD ["turnstream", "serve"]
