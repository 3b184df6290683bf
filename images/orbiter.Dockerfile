# A worker whose agent is Orbiter's own. From the repository's root, after the plain worker:
#   docker build -f images/worker.Dockerfile -t orbiter/worker .
#   docker build -f images/orbiter.Dockerfile --build-arg WORKER=orbiter/worker -t orbiter/worker-orbiter .
ARG WORKER=localhost/orbiter/worker:dev
FROM ${WORKER}
USER 0:0

# Dependencies first: they change seldom. PIP_OPTIONS is for builds without a package index.
ARG PIP_OPTIONS=""
COPY images/orbiter.lock /opt/agent/
RUN python3 -m pip install ${PIP_OPTIONS} --quiet --no-cache-dir --root-user-action=ignore \
      --only-binary=:all: --require-hashes --target /opt/agent/lib -r /opt/agent/orbiter.lock

COPY packages/orbiter-core/src packages/orbiter-models/src packages/orbiter-mcp/src \
     packages/orbiter-cli/src /opt/agent/src/
# The agent's packages are not the wrapper's: they are on the path of this one program only.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/agent/src \
 && mkdir -p /opt/agent/bin \
 && printf '%s\n' '#!/usr/bin/env python3' 'import sys' \
      'sys.path[:0] = ["/opt/agent/src", "/opt/agent/lib"]' \
      'from orbiter.cli.main import main' 'main()' > /opt/agent/bin/orbiter \
 && chmod 755 /opt/agent/bin/orbiter
USER 1000:1000
