# Two stages: the first builds a virtual environment, the second holds it and nothing to build with.
FROM python:3.12.12-slim-bookworm AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY epp ./epp
# Envoy (extra envoy, 100 MB) is left out: `epp gateway` runs where epp[envoy] is installed.
# A wheel is built without the network's newest versions deciding: constraints pin what is installed.
RUN python -m venv /opt/epp \
    && /opt/epp/bin/python -m pip install -c constraints.txt '.[grpc,sim]' \
    && /opt/epp/bin/python -m compileall -q /opt/epp/lib

FROM python:3.12.12-slim-bookworm
# Works with a read-only root: bytecode is compiled above, logs go to stdout and stderr, nothing else is written.
ENV PATH=/opt/epp/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/epp /opt/epp
COPY config /etc/epp
USER 65532:65532
# HTTP; as a gateway's endpoint picker also external processing, gRPC health and metrics.
EXPOSE 8080 9002 9003 9090
# Exec form: the process is PID 1 and gets SIGTERM itself, so that it drains.
ENTRYPOINT ["epp"]
CMD ["serve"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
