# Stages with their durations. To be sourced; needs `set -euo pipefail` in the script that does.
#
#   stages_begin            once, before the first stage
#   stage NAME COMMAND...   runs the command and notes how long it took; a failure ends the script
#
# A table of all stages is printed when the script ends, also after a failure. A script that was started by a
# stage of another script adds its rows to the table of that one.
# shellcheck shell=bash

stages_begin() {
    if [[ -n ${SOPERATOR_STAGES:-} ]]; then
        return
    fi
    SOPERATOR_STAGES=$(mktemp)
    export SOPERATOR_STAGES
    stages_start=$SECONDS
    trap stages_end EXIT
}

stage() {
    local name=$1 start=$SECONDS status=0
    shift
    printf '\n=== %s\n' "$name" >&2
    # Not in a condition: bash would ignore failures inside functions.
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    local result=ok
    ((status == 0)) || result=FAILED
    printf '%s\t%s\t%s\n' "$name" "$((SECONDS - start))" "$result" >>"$SOPERATOR_STAGES"
    return "$status"
}

stages_end() {
    local status=$?
    {
        echo
        awk -F '\t' -v total="$((SECONDS - stages_start))" '
            function show(name, seconds, result) {
                printf "%-24s %4d:%02d  %s\n", name, int(seconds / 60), seconds % 60, result
            }
            { show($1, $2, $3) }
            END { show("total", total, "") }
        ' "$SOPERATOR_STAGES"
    } >&2
    rm -f "$SOPERATOR_STAGES"
    exit "$status"
}
