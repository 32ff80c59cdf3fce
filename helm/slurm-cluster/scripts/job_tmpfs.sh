#!/bin/sh
# A directory in memory for each job, owned by its user: job_tmpfs.sh recreate|delete|delete_leftover
#
# Users see it as /mnt/memory/job-ID. The directory above may be writable by everybody, so links are never followed.
base=${CHECKS_MEMORY:-/mnt/jail.upper/mnt/memory}
[ -d "$base" ] || exit 0

case ${SLURM_JOB_ID:-}:$1 in
    "":delete_leftover) ;;
    *[!0-9]*:recreate | *[!0-9]*:delete | :*)
        echo "SLURM_JOB_ID is '${SLURM_JOB_ID:-}', which is no number"
        exit 1
        ;;
esac

case $1 in
    recreate)
        folder=$base/job-$SLURM_JOB_ID
        rm -rf -- "$folder"
        mkdir -m 0700 -- "$folder" || exit 1
        chown -h "${SLURM_JOB_UID:-0}:${SLURM_JOB_GID:-0}" "$folder"
        ;;
    delete)
        rm -rf -- "$base/job-$SLURM_JOB_ID"
        ;;
    delete_leftover)
        # First the directories, then the jobs: a job that begins in between has no directory in the list.
        folders=$(find "$base" -mindepth 1 -maxdepth 1 -name 'job-[0-9]*')
        [ -n "$folders" ] || exit 0
        # No answer is no permission to delete.
        jobs=$(squeue --noheader --nodelist="${SLURMD_NODENAME:-$(hostname)}" --format=%A) || exit 1
        for folder in $folders; do
            id=${folder##*/job-}
            if ! printf '%s\n' "$jobs" | grep -qx " *$id *"; then
                echo "job $id is over"
                rm -rf -- "$folder"
            fi
        done
        ;;
    *)
        echo "call it with recreate, delete or delete_leftover"
        exit 2
        ;;
esac
