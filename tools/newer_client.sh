#!/bin/sh
# Unpack the BOINC client of another Debian release beside the system's own, for `make clients`.
#
# Usage: tools/newer_client.sh SUITE [MIRROR]     e.g. trixie (8.0), sid (the newest)
# They come from MIRROR, or from where apt gets this machine's own Debian packages.
# Prints a folder with `boinc` and `boinccmd` in it, to be put first on PATH.  Nothing is installed: the release's
# packages, its C library too, are unpacked under .venv/clients/SUITE and started from there.
set -eu
suite=$1
root=$PWD/.venv/clients/$suite
fail() {
    echo "tools/newer_client.sh: $*" >&2
    exit 1
}

if [ ! -x "$root/bin/boinccmd" ]; then
    command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing. Install it with: apt-get install mmdebstrap"
    mirror=${2:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
        'Origin: Debian' 'Label: Debian' 'Component: main' | head -n 1)}
    [ -n "$mirror" ] || fail "apt knows no source of Debian's packages here. If one is configured, run: apt-get update." \
        "Else say where a mirror is: make clients MIRROR=ADDRESS"
    rm -rf "$root"
    mkdir -p "$root"
    # A mirror that is some days behind is good enough for a test.
    mmdebstrap --quiet --variant=extract --aptopt='Acquire::Check-Valid-Until "false"' --include=boinc-client \
        "$suite" "$root" "$mirror" >&2 || fail "the packages of $suite could not be had from $mirror; the messages are above." \
        "Another mirror: make clients MIRROR=ADDRESS"
    libraries=$root/usr/lib/$(gcc -print-multiarch)
    mkdir "$root/bin"
    for program in boinc boinccmd; do
        printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' \
            "$libraries"/ld-linux-*.so.* "$libraries" "$root/usr/bin/$program" >"$root/bin/$program"
        chmod +x "$root/bin/$program"
    done
fi
echo "$root/bin"
