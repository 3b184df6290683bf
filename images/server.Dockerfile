# `orbiter serve`: agents over HTTP. From the repository's root:
#   docker build -f images/server.Dockerfile -t orbiter/server .
ARG BASE=docker.io/library/python:3.11-slim-bookworm
FROM ${BASE}

RUN useradd --uid 1000 --user-group --no-create-home --shell /usr/sbin/nologin orbiter

# Dependencies first: they change seldom. PIP_OPTIONS is for builds without a package index.
ARG PIP_OPTIONS=""
COPY images/server.lock /opt/orbiter/
RUN python3 -m pip install ${PIP_OPTIONS} --quiet --no-cache-dir --root-user-action=ignore \
      --only-binary=:all: --require-hashes --target /opt/orbiter/lib -r /opt/orbiter/server.lock

COPY contracts/src packages/orbiter-core/src packages/orbiter-models/src packages/orbiter-mcp/src \
     packages/orbiter-tasks/src packages/orbiter-client/src packages/orbiter-server/src \
     packages/orbiter-cli/src \
     /opt/orbiter/src/
# The root file system is read-only where this runs: byte code is written now or never. -P -s: HOME is
# writable for the tools of agents, and what they leave there is not imported at the next start.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/orbiter/src \
 && printf '%s\n' '#!/usr/bin/env -S python3 -P -s' 'from orbiter.cli.main import main' 'main()' \
      > /usr/local/bin/orbiter \
 && chmod 755 /usr/local/bin/orbiter

ENV PYTHONPATH=/opt/orbiter/src:/opt/orbiter/lib PYTHONUNBUFFERED=1 HOME=/tmp
USER 1000:1000
WORKDIR /
ENTRYPOINT ["orbiter"]
CMD ["--help"]
