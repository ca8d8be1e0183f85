#!/bin/sh
# Try Cobblestone under each Python here that is new enough: the system's, those on PATH, pyenv's.  Prints a table.
#
# Usage: tools/pythons.sh [--with-newest-pip] [PYTHON...]        (`make pythons`)
# Each Python gets a clone of its own, in a folder with a space in its name, and an empty package cache; nothing of an earlier run
# is used.  There: set-up, quick tests, `cobblestone demo --quick`, and a backup of that project, restored and looked at by the doctor.
# The messages of each step stay in the folder that the last line names.
set -u
cd "$(dirname "$0")/.."

newest_pip=""
if [ "${1:-}" = --with-newest-pip ]; then
    newest_pip=yes
    shift
fi
results=$(mktemp -d "${TMPDIR:-/tmp}/cobblestone-pythons-XXXXXX")

version_of() { "$1" -c 'import sys; sys.version_info < (3, 11) and sys.exit(1); print(sys.version.split()[0])' 2>/dev/null; }

candidates() {
    for folder in $(printf '%s' "$PATH" | tr ' :' '? ') "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin; do
        for program in "$folder"/python3 "$folder"/python3.[0-9]*; do
            case $program in *-config | *.py | */shims/*) ;; *) [ ! -x "$program" ] || readlink -f "$program" ;; esac
        done
    done
}

# step NAME COMMAND...: run a command; its word for the table is in $cell.
step() {
    name=$1
    shift
    began=$(date +%s)
    if "$@" >"$logs/$name.txt" 2>&1; then
        cell="$(($(date +%s) - began)) s"
    else
        cell="FAILED"
        failed=yes
    fi
    printf '  %s: %s\n' "$name" "$cell"
}

backup_and_restore() {
    .venv/bin/cobblestone backup -p .demo/project copy.tar.gz &&
        .venv/bin/cobblestone backup -p .demo/project copy.tar &&
        .venv/bin/cobblestone restore copy.tar.gz restored &&
        .venv/bin/cobblestone restore copy.tar restored-again &&
        .venv/bin/cobblestone doctor -p restored
}

set_up() {
    if [ -n "$newest_pip" ]; then
        "$python" -m venv .venv && .venv/bin/python -m pip install --quiet --upgrade pip || return 1
    fi
    PYTHON=$python PIP_NO_CACHE_DIR=1 tools/setup.sh test && .venv/bin/python -m pip --version
}

try_python() {
    logs=$results/$version${newest_pip:+-newest-pip}
    mkdir "$logs"
    folder="$logs/a clone"
    git -c safe.directory='*' clone --quiet . "$folder" || exit 1
    row="| $version${newest_pip:+, newest pip} |"
    home=$PWD
    cd "$folder" || exit 1
    printf '%s\n' "$python"
    step set-up set_up
    row="$row $cell |"
    if [ "$cell" != FAILED ]; then
        step quick-tests .venv/bin/pytest -n 2 -q tests/simulations tests/unit tests/properties tests/golden tests/programs
        row="$row $cell |"
        step demo .venv/bin/cobblestone demo --quick
        row="$row $cell |"
        step backup-restore backup_and_restore
        row="$row $cell |"
    fi
    cd "$home" || exit 1
    rm -rf "$folder"
    printf '%s\n' "$row" >>"$results/table.md"
}

failed=""
printf '| Python | set-up | quick tests | demo | backup, restore, doctor |\n|---|---|---|---|---|\n' >"$results/table.md"
[ $# -gt 0 ] || set -- $(candidates | sort -u)
tried=" "
for python in "$@"; do
    version=$(version_of "$python") || continue
    case $tried in *" $version "*) continue ;; esac
    tried="$tried$version "
    try_python
done
cat "$results/table.md"
printf 'What each step said: %s\n' "$results"
[ -z "$failed" ]
