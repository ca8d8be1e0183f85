#!/bin/sh
# Unpack the BOINC client of another Debian release beside the system's own, for `make clients`.
#
# Usage: tools/newer_client.sh SUITE     e.g. trixie (8.0), sid (the newest)
# Prints a folder with `boinc` and `boinccmd` in it, to be put first on PATH.  Nothing is installed: the release's
# packages, its C library too, are unpacked under .venv/clients/SUITE and started from there.
set -eu
suite=$1
root=$PWD/.venv/clients/$suite
libraries=$root/usr/lib/$(gcc -print-multiarch)

if [ ! -x "$root/bin/boinccmd" ]; then
    command -v mmdebstrap >/dev/null || {
        echo "tools/newer_client.sh: mmdebstrap is missing. Install it with: apt-get install mmdebstrap" >&2
        exit 1
    }
    rm -rf "$root"
    mkdir -p "$root"
    # A mirror that is some days behind is good enough for a test.
    mmdebstrap --quiet --variant=extract --aptopt='Acquire::Check-Valid-Until "false"' --include=boinc-client \
        "$suite" "$root" http://deb.debian.org/debian >&2
    mkdir "$root/bin"
    for program in boinc boinccmd; do
        printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
            "$libraries"/ld-linux-*.so.* "$libraries" "$root/usr/bin/$program" >"$root/bin/$program"
        chmod +x "$root/bin/$program"
    done
fi
echo "$root/bin"
