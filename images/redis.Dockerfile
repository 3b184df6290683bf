# Redis for a cluster without a registry in reach; anywhere else the chart's public image does.
ARG BASE=docker.io/library/debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      redis-server > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /etc/redis \
 && install -d -o 1000 -g 1000 /data
USER 1000:1000
WORKDIR /data
ENTRYPOINT ["redis-server"]
