#!/bin/sh
# Frees the caches of the kernel, so that the next job begins with free memory on all sides of the machine.
target=${CHECKS_DROP_CACHES:-/proc/sys/vm/drop_caches}
if [ ! -w "$target" ]; then
    echo "$target cannot be written here"
    exit 0
fi
sync
echo 1 >"$target"
