#!/bin/sh
# Fails when memory that was promised to a job is in use: processes of a job before were not ended, or files were left in memory.
#
# Before a job: what is in use and what the job was given are more than the node has. Without a job: more is in use than a node without
# jobs needs.
for folder in ${CHECKS_CGROUPS:-/sys/fs/cgroup /sys/fs/cgroup/memory}; do
    [ ! -r "$folder/memory.stat" ] || break
done
if [ ! -r "$folder/memory.stat" ]; then
    echo "no memory.stat: what is in use is not known"
    exit 0
fi
# Memory of processes and of files in memory, without caches. Version 1 of control groups has totals, and the limit beside them.
eval "$(awk '
    $1 == "anon" || $1 == "shmem" { new += $2 }
    $1 == "total_rss" || $1 == "total_shmem" { old += $2; totals = 1 }
    $1 == "hierarchical_memory_limit" { limit = $2 }
    END { printf "used=%.0f limit=%.0f", totals ? old : new, limit }
' "$folder/memory.stat")"
[ ! -r "$folder/memory.max" ] || limit=$(cat "$folder/memory.max")
real=${CHECKS_NODE_REAL_MEM_BYTES:-0}
job=${CHECKS_JOB_ALLOC_MEM_BYTES:-0}
[ "$real" -gt 0 ] || exit 0
# A worker's memory is limited to what Slurm knows of. Another limit is that of the whole machine, which others use too.
case $limit in *[!0-9]* | "") limit=0 ;; esac
if [ "$limit" -lt $((real / 2)) ] || [ "$limit" -gt $((real * 2)) ]; then
    echo "the limit of $folder is $limit, which is not the $real bytes of this node"
    exit 0
fi
# slurmd and its like need some, also when a job has all of the node.
most=$((real / 10))
[ "$most" -ge 268435456 ] || most=268435456
if [ "$job" -gt 0 ] && [ $((real - job)) -gt "$most" ]; then
    most=$((real - job))
fi
echo "in use: $used of $real bytes; the job has $job; at most $most"
if [ "$used" -gt "$most" ]; then
    echo "$((used / 1048576)) MiB in use, $((most / 1048576)) MiB expected" >&3
    exit 1
fi
