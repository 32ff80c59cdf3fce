#!/bin/sh
# Slurm runs this on a worker regularly.
exec /bin/sh "${0%/*}/check_runner.sh" hc_program
