#!/bin/sh
# Slurm runs this on a worker before each job. When it fails, the job waits again, and the node is drained.
exec /bin/sh "${0%/*}/check_runner.sh" prolog
