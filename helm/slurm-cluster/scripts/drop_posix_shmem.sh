#!/bin/sh
# Removes files that the user of the job left in /dev/shm, if no other job of the user is on this node.
shm=${CHECKS_SHM:-/dev/shm}
user=${SLURM_JOB_UID:-}
# Root's files belong to programs of the pod.
if [ -z "$user" ] || [ "$user" = 0 ]; then
    exit 0
fi
# No answer is no permission to delete.
jobs=$(squeue --noheader --nodelist="${SLURMD_NODENAME:-$(hostname)}" --user="$user" --format=%A) || exit 1
others=$(printf '%s\n' "$jobs" | tr -d ' ' | grep -vx "${SLURM_JOB_ID:-}" | grep -c .)
if [ "$others" != 0 ]; then
    echo "$others other jobs of user $user are here"
    exit 0
fi
find "$shm" -xdev -mindepth 1 -depth -user "$user" -print -exec rm -rf -- {} +
