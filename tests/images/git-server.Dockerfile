# A git server for tests: Debian's git behind a small HTTP server. Repositories live in /srv/git.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends git > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY tests/images/git_server.py /opt/git/
ENV GIT_ROOT=/srv/git PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /
ENTRYPOINT ["python3", "/opt/git/git_server.py"]
