# A worker: the wrapper, git, and the CLI of one agent. From the repository's root:
#   docker build -f images/worker.Dockerfile --build-arg AGENT=claude -t orbiter/worker-claude .
# AGENT is none, claude, codex, factory, gemini or opencode; the worker of the agent `orbiter` is
# images/orbiter.Dockerfile, built upon this one with AGENT=none.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
ARG NODE=docker.io/library/node:22-bookworm-slim

# Only npm knows where the CLI comes from. A directory mounted at /media that holds the CLI already
# (images/build.py does so where no registry of base images is in reach) stands in for npm.
FROM ${NODE} AS agent
ARG AGENT=none
COPY images/fetch-agent.sh images/versions.env /fetch/
RUN if [ -d /media/bin ]; then cp -a /media /opt/agent; \
    else sh /fetch/fetch-agent.sh "${AGENT}" /opt/agent; fi

FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      ca-certificates git openssh-client > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
 && useradd --uid 1000 --user-group --create-home --shell /bin/bash agent \
 && useradd --uid 1001 --user-group --no-create-home --shell /usr/sbin/nologin git-push \
 && install -d -o agent -g agent /workspace

# Dependencies first: they change seldom. PIP_OPTIONS is for builds without a package index.
ARG PIP_OPTIONS=""
COPY images/worker.lock /opt/orbiter/
RUN python3 -m pip install ${PIP_OPTIONS} --quiet --no-cache-dir --root-user-action=ignore \
      --only-binary=:all: --require-hashes --target /opt/orbiter/lib -r /opt/orbiter/worker.lock

COPY --from=agent /opt/agent /opt/agent

COPY contracts/src wrapper/src /opt/orbiter/src/
COPY images/worker_start.py /opt/orbiter/
# The root file system is read-only where this runs: byte code is written now or never.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/orbiter/src

ENV PATH=/opt/agent/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/home/agent
USER 1000:1000
WORKDIR /
# The wrapper is PID 1 and reaps what the agent leaves behind: no init beside it. It has the agent's
# uid, so nothing that the agent can write may decide what is run here: -I (no PYTHON* variables, no
# user site, not the working directory), and a working directory out of its reach all the same.
ENTRYPOINT ["python3", "-I", "/opt/orbiter/worker_start.py"]
