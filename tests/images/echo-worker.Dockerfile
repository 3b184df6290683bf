# A worker whose claude answers at once: what a bench measures then is Orbiter alone.
ARG WORKER=localhost/orbiter/worker:dev
FROM ${WORKER}
COPY tests/images/echo-claude /opt/agent/bin/claude
