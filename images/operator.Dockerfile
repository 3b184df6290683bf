# The operator, and the controller of triggers (-m orbiter_triggers). From the repository's root:
#   docker build -f images/operator.Dockerfile -t orbiter/operator .
ARG BASE=docker.io/library/python:3.11-slim-bookworm
FROM ${BASE}

RUN useradd --uid 1000 --user-group --no-create-home --shell /usr/sbin/nologin orbiter

# Dependencies first: they change seldom. PIP_OPTIONS is for builds without a package index.
ARG PIP_OPTIONS=""
COPY images/operator.lock /opt/orbiter/
RUN python3 -m pip install ${PIP_OPTIONS} --quiet --no-cache-dir --root-user-action=ignore \
      --only-binary=:all: --require-hashes --target /opt/orbiter/lib -r /opt/orbiter/operator.lock

COPY contracts/src operator/src triggers/src /opt/orbiter/src/
# The root file system is read-only where this runs: byte code is written now or never.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/orbiter/src

ENV PYTHONPATH=/opt/orbiter/src:/opt/orbiter/lib PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /
# -P -s: neither the working directory nor a user's packages are imported from.
ENTRYPOINT ["python3", "-P", "-s", "-m", "orbiter_operator"]
