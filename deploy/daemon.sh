#!/bin/bash
# Dagster's daemon, and beside it the Ray node that the runs it launches are on. Where one of the two ends, so does the
# other, and with them the container, which Docker then starts again: the node dies with a Ray head that is restarted.
set -eu
ray start --address="$RAY_ADDRESS" --num-cpus=0
dagster-daemon run --workspace workspace.yaml &
daemon=$!
trap 'kill "$daemon" 2> /dev/null; wait "$daemon"' EXIT
trap 'exit 143' TERM INT
while kill -0 "$daemon" 2> /dev/null && grep -qsx raylet /proc/[0-9]*/comm; do
  sleep 5 &
  wait $!
done
exit 1
