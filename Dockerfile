# The demo in a container: simulated robot, real runtime, DDS on loopback. Nothing of a real robot runs from it.
#   docker build -t onboard . && docker run --rm onboard
#   docker run --rm --network host onboard onboard dashboard    # the page of a runtime of this machine
FROM python:3.11-slim-bookworm

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libusb-1.0-0 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home onboard

WORKDIR /src
COPY . .
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ".[cpu,dashboard,foxglove]" && rm -rf /src

# hadolint ignore=DL3066
USER onboard
WORKDIR /home/onboard
# One drive compiles the simulator's kernels too, and shows that the image works.
RUN onboard compile && onboard-hil demo && rm -rf out recordings
CMD ["onboard-hil", "demo"]
