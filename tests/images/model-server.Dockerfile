# The scripted model of docs/model-server.md: Python's standard library and one directory.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
FROM ${BASE}
COPY tests/model_server /opt/model/model_server
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/model
ENV PYTHONPATH=/opt/model PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /
ENTRYPOINT ["python3", "-m", "model_server", "--host", "0.0.0.0", "--port", "8080"]
