# A git server for tests: Debian's git behind a small HTTP server. Repositories live in /srv/git.
ARG WORKER=localhost/orbiter/worker:dev
FROM ${WORKER}
COPY tests/images/git_server.py /opt/git/
ENV GIT_ROOT=/srv/git
ENTRYPOINT ["python3", "/opt/git/git_server.py"]
