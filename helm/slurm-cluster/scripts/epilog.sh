#!/bin/sh
# Slurm runs this on a worker after each job.
exec /bin/sh "${0%/*}/check_runner.sh" epilog
