#!/bin/bash
# container.sh DIRECTORY: runs a container inside a Slurm machine, as a kubelet would, and waits for its end.
#
# DIRECTORY/../net and /uts are the pod's namespaces. DIRECTORY has: root (the image), volumes (lines "SOURCE TARGET"),
# environment (lines "NAME=value"), command (one word each line). The process id of the container's first process,
# as the machine sees it, is written to DIRECTORY/pid, and in the end what it ended with to DIRECTORY/exit-code.
set -eu
directory=$1
pod=$(dirname "$directory")
export directory

inside() {
    fs=$directory/fs
    mkdir -p "$fs"
    mount --make-rprivate /
    mount -t tmpfs tmpfs "$fs"
    mkdir "$fs/upper" "$fs/work" "$fs/root"
    mount -t overlay overlay -o "lowerdir=$(cat "$directory/root"),upperdir=$fs/upper,workdir=$fs/work" "$fs/root"
    mount -t proc proc "$fs/root/proc"
    mount --rbind /dev "$fs/root/dev"
    mount -t sysfs -o ro sysfs "$fs/root/sys"
    while read -r source target; do
        if [[ -d $source ]]; then
            mkdir -p "$fs/root$target"
        else
            mkdir -p "$(dirname "$fs/root$target")"
            touch "$fs/root$target"
        fi
        mount --bind "$source" "$fs/root$target"
    done <"$directory/volumes"
    mapfile -t environment <"$directory/environment"
    mapfile -t command <"$directory/command"
    exec chroot "$fs/root" /usr/bin/env -i PATH=/usr/bin:/bin "${environment[@]}" "${command[@]}"
}
export -f inside

nsenter "--net=$pod/net" "--uts=$pod/uts" unshare --mount --pid --fork --kill-child bash -c inside &
unshare_pid=$!
trap 'kill -KILL "$unshare_pid"' TERM
for _ in $(seq 100); do
    pid=$(cat "/proc/$unshare_pid/task/$unshare_pid/children" 2>/dev/null || true)
    # A container may have ended by now.
    if [[ -n $pid ]] || ! kill -0 "$unshare_pid" 2>/dev/null; then
        break
    fi
    sleep 0.05
done
echo "${pid% }" >"$directory/pid"
code=0
wait "$unshare_pid" || code=$?
echo "$code" >"$directory/exit-code"
exit "$code"
