#!/bin/sh
# Runs the checks of checks.conf that are due: check_runner.sh prolog|epilog|hc_program
#
# It needs a POSIX shell and Slurm's commands, nothing else. What goes wrong in the runner itself (slurmctld does not answer, a log
# cannot be written) is told on standard error and harms no job: only a check that fails and drains does.
#
# A check is a shell command. Exit code 0 means that all is well. What it writes to file descriptor 3 are details for people.

set -u
# Slurm gives programs almost no environment.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin:/usr/local/slurm/bin
export PATH

context=${1:-}
scripts=$(cd "${0%/*}" && pwd)
checks=${CHECKS_FILE:-$scripts/checks.conf}
jail=${CHECKS_JAIL:-/mnt/jail}
outputs=opt/soperator-outputs/slurm_scripts
# Log files are begun anew at this size.
most_log_bytes=1048576
newline='
'

say() { echo "check_runner: $context: $*" >&2; }

case $context in
    prolog | epilog | hc_program) ;;
    *)
        say "call it with prolog, epilog or hc_program"
        exit 2
        ;;
esac

node=${SLURMD_NODENAME:-$(hostname 2>/dev/null | cut -d. -f1)}
job=${SLURM_JOB_ID:-}

# --- What is known about the node. Asked for once, and only when a check wants it: every question is work for slurmctld.

node_text=
node_asked=
ask_node() {
    [ -z "$node_asked" ] || { [ -n "$node_text" ]; return; }
    node_asked=yes
    node_text=$(scontrol show node "$node" 2>&1) || {
        say "scontrol does not tell about $node: $node_text"
        node_text=
        return 1
    }
}

# node_field NAME: a value of one word.
node_field() { printf '%s\n' "$node_text" | tr ' ' "$newline" | sed -n "s/^$1=//p" | head -n 1; }
# node_line NAME: a value that goes on until the end of its line.
node_line() { printf '%s\n' "$node_text" | sed -n "s/^ *$1=//p" | head -n 1; }
# Slurm adds who set the reason and when: "text [root@2026-01-02T03:04:05]".
node_reason() { node_line Reason | sed 's/ \[[^]]*\]$//'; }
node_flags() { node_field State | tr '+*~#!%$@^-' ' '; }
is_drained() {
    case " $(node_flags) " in
        *" DRAIN "* | *" DRAINED "* | *" DRAINING "*) return 0 ;;
        *) return 1 ;;
    esac
}

platform_asked=
gpus=0
platform=CPU
platforms="any CPU"
ask_platform() {
    [ -z "$platform_asked" ] || return 0
    platform_asked=yes
    command -v nvidia-smi >/dev/null 2>&1 || return 0
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)
    list=$(nvidia-smi -L 2>/dev/null | grep '^GPU ') || return 0
    gpus=$(printf '%s\n' "$list" | wc -l | tr -d ' ')
    model=$(printf '%s\n' "$list" | head -n 1 | sed 's/^GPU [0-9]*: //; s/^NVIDIA //; s/^Tesla //; s/[ -].*//')
    platform=${gpus}x$model
    platforms="any ${gpus}xGPU $platform"
}

# Memory of this job on this node, in MiB; nothing if it cannot be known.
job_memory() {
    [ -n "$job" ] || return 0
    scontrol --details show job "$job" 2>/dev/null | sed -n 's/^ *Nodes=\([^ ]*\) .*Mem=\([0-9]*\).*/\1 \2/p' |
        while read -r hosts memory; do
            if scontrol show hostnames "$hosts" 2>/dev/null | grep -qx "$node"; then
                echo "$memory"
                break
            fi
        done
}

# --- One check: these variables, until the next line "check=".

forget_check() {
    check= command= platforms_wanted=any skip_for_cpu_jobs=false skip_for_partial_gpu_jobs=false
    skip_for_reservation_prefixes= contexts= node_states=any on_fail=none on_ok=none reason_base=
    reason_append_details=false run_in_jail=false log= need_env= timeout=60
}

# has WORD WORDS...
has() {
    wanted=$1
    shift
    for word in "$@"; do
        [ "$word" != "$wanted" ] || return 0
    done
    return 1
}

count_words() {
    # shellcheck disable=SC2086 # Words are meant.
    set -- $(printf '%s' "$1" | tr ',' ' ')
    echo $#
}

# Whether the check is for this context, node and job.
is_due() {
    # shellcheck disable=SC2086 # Words are meant, in all of these.
    has "$context" $contexts || return 1
    if [ "$context" != hc_program ]; then
        for prefix in $skip_for_reservation_prefixes; do
            case ${SLURM_JOB_RESERVATION:-} in "$prefix"*) return 1 ;; esac
        done
        job_gpus=$(count_words "${SLURM_JOB_GPUS:-}")
        if [ "$skip_for_cpu_jobs" = true ] && [ "$job_gpus" = 0 ]; then
            return 1
        fi
        if [ "$skip_for_partial_gpu_jobs" = true ] && [ "$job_gpus" != 0 ]; then
            ask_platform
            [ "$job_gpus" -ge "$gpus" ] || return 1
        fi
    fi
    if ! has any $platforms_wanted; then
        ask_platform
        fits=
        for tag in $platforms; do
            ! has "$tag" $platforms_wanted || fits=yes
        done
        [ -n "$fits" ] || return 1
    fi
    if ! has any $node_states; then
        ask_node || return 1
        is_drained || return 1
    fi
}

give_env() {
    for name in $need_env; do
        case $name in
            CHECKS_PLATFORM_TAG | CHECKS_PLATFORM_TAGS)
                ask_platform
                export CHECKS_PLATFORM_TAG="$platform" CHECKS_PLATFORM_TAGS="$platforms"
                ;;
            CHECKS_NODE_STATE_FLAGS)
                ask_node || return 1
                CHECKS_NODE_STATE_FLAGS=$(node_flags)
                export CHECKS_NODE_STATE_FLAGS
                ;;
            CHECKS_NODE_REASON)
                ask_node || return 1
                CHECKS_NODE_REASON=$(node_reason)
                export CHECKS_NODE_REASON
                ;;
            CHECKS_NODE_COMMENT)
                ask_node || return 1
                CHECKS_NODE_COMMENT=$(node_line Comment)
                export CHECKS_NODE_COMMENT
                ;;
            CHECKS_NODE_REAL_MEM_BYTES)
                ask_node || return 1
                memory=$(node_field RealMemory)
                export CHECKS_NODE_REAL_MEM_BYTES="$((${memory:-0} * 1048576))"
                ;;
            CHECKS_JOB_ALLOC_MEM_BYTES)
                memory=$(job_memory)
                export CHECKS_JOB_ALLOC_MEM_BYTES="$((${memory:-0} * 1048576))"
                ;;
            *) say "$check: need_env: nothing is known about $name" ;;
        esac
    done
}

# Where the output of the check goes; users read it in the jail.
log_file() {
    [ "$log" != none ] || { echo /dev/null; return; }
    folder=${CHECKS_OUTPUTS:-}
    if [ -z "$folder" ]; then
        if [ -d "$jail/opt" ]; then folder=$jail/$outputs; else folder=/$outputs; fi
    fi
    file=$folder/${log:-$node.$check.$context.out}
    if ! mkdir -p "$folder" 2>/dev/null || ! : 2>/dev/null >>"$file"; then
        say "$check: cannot write $file"
        echo /dev/null
        return
    fi
    size=$(wc -c <"$file" | tr -d ' ')
    if [ "${size:-0}" -gt "$most_log_bytes" ]; then
        mv -f "$file" "$file.old"
    fi
    echo "$file"
}

# Runs the command: output to $1, details to standard output.
run_command() {
    limit=
    ! command -v timeout >/dev/null 2>&1 || limit="timeout $timeout"
    if [ "$run_in_jail" = true ]; then
        # shellcheck disable=SC2086
        $limit chroot "$jail" /bin/sh -c "cd /opt/slurm_scripts && $command" 3>&1 4<&- >>"$1" 2>&1
    else
        # shellcheck disable=SC2086
        (cd "$scripts" && exec $limit /bin/sh -c "$command" 3>&1 4<&- >>"$1" 2>&1)
    fi
}

# Changes the node: update_node WHAT...
update_node() {
    text=$(scontrol update NodeName="$node" "$@" 2>&1) || say "$check: scontrol update NodeName=$node $*: $text"
    # What was known is old.
    node_asked= node_text=
}

# begins TEXT WITH
begins() { case $1 in "$2"*) return 0 ;; *) return 1 ;; esac; }

failed=
react_to_failure() {
    reason=$reason_base
    if [ "$reason_append_details" = true ] && [ -n "$1" ]; then
        reason="$reason: $1"
    fi
    reason="$reason [$context]"
    say "$check failed: $reason"
    case $on_fail in
        drain)
            failed=yes
            # The reason of a node that is drained already is somebody's: it tells who may undrain it.
            if ! ask_node || ! is_drained; then
                update_node State=DRAIN Reason="$reason"
            fi
            ;;
        comment)
            if ! ask_node || ! begins "$(node_line Comment)" "$reason_base"; then
                update_node Comment="$reason"
            fi
            ;;
    esac
}

# Takes back what a failure of the same check did, and nothing that others did.
react_to_success() {
    case $on_ok in
        undrain)
            ask_node || return 0
            if is_drained && begins "$(node_reason)" "$reason_base"; then
                update_node State=UNDRAIN
            fi
            ;;
        uncomment)
            ask_node || return 0
            if begins "$(node_line Comment)" "$reason_base"; then
                update_node Comment=
            fi
            ;;
    esac
}

run_check() {
    [ -n "$check" ] || return 0
    is_due || return 0
    if [ "$run_in_jail" = true ] && [ ! -x "$jail/bin/sh" ]; then
        say "$check: there is nothing in the jail yet; skipped"
        return 0
    fi
    if ! give_env; then
        say "$check: what it needs to know is not known; skipped"
        return 0
    fi
    out=$(log_file)
    echo "--- $(date -u +%Y-%m-%dT%H:%M:%SZ) $node $check $context job=${job:-none}" >>"$out"
    # Details become part of a line of scontrol.
    details=$(run_command "$out")
    code=$?
    details=$(printf '%s' "$details" | tr '\n"' " '" | cut -c 1-256)
    if [ "$code" = 0 ]; then
        react_to_success
        return 0
    fi
    [ "$code" != 124 ] || details="no answer in $timeout s"
    echo "exit code $code" >>"$out"
    react_to_failure "$details"
}

# --- All checks.

if [ "$context" != hc_program ]; then
    case ${SLURM_JOB_COMMENT:-} in
        *skip_checks*)
            say "job $job asks for no checks"
            exit 0
            ;;
    esac
fi
if [ ! -r "$checks" ]; then
    say "cannot read $checks"
    exit 0
fi
[ -n "${SLURM_CONF:-}" ] || [ ! -f /var/spool/slurmd/conf-cache/slurm.conf ] || {
    SLURM_CONF=/var/spool/slurmd/conf-cache/slurm.conf
    export SLURM_CONF
}

# The list is read by descriptor 4, because checks may read standard input.
exec 4<"$checks"
forget_check
while IFS= read -r line <&4 || [ -n "$line" ]; do
    key=${line%%=*}
    value=${line#*=}
    case $key in
        "" | "#"*) ;;
        check)
            run_check
            forget_check
            check=$value
            ;;
        platforms) platforms_wanted=$value ;;
        command) command=$value ;;
        skip_for_cpu_jobs) skip_for_cpu_jobs=$value ;;
        skip_for_partial_gpu_jobs) skip_for_partial_gpu_jobs=$value ;;
        skip_for_reservation_prefixes) skip_for_reservation_prefixes=$value ;;
        contexts) contexts=$value ;;
        node_states) node_states=$value ;;
        on_fail) on_fail=$value ;;
        on_ok) on_ok=$value ;;
        reason_base) reason_base=$value ;;
        reason_append_details) reason_append_details=$value ;;
        run_in_jail) run_in_jail=$value ;;
        log) log=$value ;;
        need_env) need_env=$value ;;
        timeout) timeout=$value ;;
        *) say "$checks: unknown key $key" ;;
    esac
done
run_check

# Only a prolog can keep a job from starting here.
[ "$context" != prolog ] || [ -z "$failed" ] || exit 1
exit 0
