#!/bin/sh
# Install what a target of the Makefile needs.  Running it again costs a fraction of a second.
#
#   tools/setup.sh demo    the BOINC client, and cobblestone with its core libraries in .venv
#   tools/setup.sh family  the same, and what a statistics site needs
#   tools/setup.sh browser as demo, and Chromium
#   tools/setup.sh check   cobblestone with everything for development in .venv
#   tools/setup.sh test    as check, and the Debian packages that the tests use for real
#   tools/setup.sh system  these packages alone
#
# PYTHON=/path/to/python3 chooses the interpreter for a new .venv.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }
fail() {
    printf '\nset-up stopped: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}
present() { command -v "$1" >/dev/null 2>&1; }

# --------------------------------------------------------------------------------------------- Python

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.11 or newer that you can run" \
            "Leave PYTHON out, or name another: make PYTHON=/path/to/python3 ..."
        command -v "$PYTHON"
        return
    fi
    for candidate in .venv/bin/python python3 python3.13 python3.12 python3.11 python3.14 python; do
        if new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
}

# -------------------------------------------------------------------------------------- Debian packages

chromium_packages="chromium chromium-sandbox fonts-liberation"
packages=""
# want PACKAGES COMMAND...: install PACKAGES unless COMMAND succeeds.
want() {
    wanted=$1
    shift
    "$@" >/dev/null 2>&1 || packages="$packages $wanted"
}

any_program() {
    for program in "$@"; do
        if present "$program"; then return 0; fi
    done
    return 1
}
client_of_boinc() { any_program boinc boinc_client && present boinccmd; }
chromium_browser() { any_program chromium chromium-browser google-chrome; }
boinc_headers() { [ -e /usr/include/boinc/boinc_api.h ] || [ -e /usr/local/include/boinc/boinc_api.h ]; }
postgresql() {
    for program in /usr/lib/postgresql/*/bin/initdb; do
        if [ -x "$program" ]; then return 0; fi
    done
    present initdb
}
x_screen_saver() {
    for library in /usr/lib/*/libXss.so.1 /usr/lib64/libXss.so.1 /usr/lib/libXss.so.1; do
        if [ -e "$library" ]; then return 0; fi
    done
    return 1
}
# Functions are not called as the programs that they look for: `command -v` would find the functions.
nginx_server() { present nginx || [ -x /usr/sbin/nginx ]; }
pgbouncer_pool() { present pgbouncer || [ -x /usr/sbin/pgbouncer ]; }
opencl_on_processor() { [ -e /etc/OpenCL/vendors/pocl.icd ] && [ -e /usr/include/CL/cl.h ]; }
working_venv() { "$python" -c 'import ensurepip, venv' || [ -x .venv/bin/pip ]; }

collect_packages() {
    if [ -n "$python" ]; then
        want python3-venv working_venv
    else
        want "python3 python3-venv" false
    fi
    case $goal in
    demo | family) want boinc-client client_of_boinc ;;
    browser)
        want boinc-client client_of_boinc
        want "$chromium_packages" chromium_browser
        ;;
    test | system)
        want boinc-client client_of_boinc
        want git present git
        want boinctui present boinctui
        want libboinc-app-dev boinc_headers
        want bubblewrap present bwrap
        want xvfb present Xvfb
        want xdotool present xdotool
        want libxss1 x_screen_saver
        want gcc present gcc
        want g++ present g++
        want "pocl-opencl-icd ocl-icd-libopencl1 opencl-c-headers" opencl_on_processor
        want "$chromium_packages" chromium_browser
        want postgresql postgresql
        want pgbouncer pgbouncer_pool
        want nginx nginx_server
        want zsh present zsh
        want fish present fish
        want systemd present systemd-analyze
        ;;
    esac
}

become_root=""
policy=/usr/sbin/policy-rc.d

install_packages() {
    command_line="apt-get install --no-install-recommends$packages"
    present apt-get || fail "these Debian packages, or what your system calls them, are missing:$packages" \
        "There is no apt-get here, so install them in your system's way and run make again." \
        "Fedora: dnf install boinc-client bubblewrap xorg-x11-server-Xvfb xdotool gcc gcc-c++ chromium postgresql-server pgbouncer nginx zsh fish" \
        "The BOINC client alone is enough for \`make demo\`."
    if [ "$(id -u)" != 0 ]; then
        present sudo || fail "these Debian packages are missing:$packages" \
            "Only root can install them. Ask your administrator for:" "$command_line"
        become_root="sudo"
        [ -t 0 ] || become_root="sudo -n" # nobody is there to type a password
        $become_root true || fail "sudo did not let us install these Debian packages:$packages" \
            "Run this yourself, then make again:" "sudo $command_line"
    fi

    say "Installing Debian packages:$packages (a minute or two)"
    forbid_service_starts
    apt_get update || say "apt-get update failed; going on with the package lists that are here"
    # shellcheck disable=SC2086  # a list of words
    apt_get install -y --no-install-recommends $packages ||
        fail "apt-get could not install:$packages" "Its messages are above. Mend that, or run:" "$command_line"
    allow_service_starts
    for service in boinc-client postgresql pgbouncer nginx; do
        case "$packages " in *" $service "*) keep_off "$service" ;; esac
    done
}

apt_get() { # its many messages are shown when it fails
    messages=$($become_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" 2>&1) || {
        printf '%s\n' "$messages" >&2
        return 1
    }
}

# Packages that bring a service start it at once, unless this script of Debian's forbids it.
forbid_service_starts() {
    if [ -e "$policy" ]; then
        status=0
        "$policy" boinc-client start >/dev/null 2>&1 || status=$?
        [ "$status" = 101 ] || fail "$policy exists and lets new services start" \
            "Cobblestone uses programs of these packages only and must not start services on your machine." \
            "Install them yourself, then run make again: $command_line"
        return
    fi
    trap allow_service_starts EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\n# Placed by cobblestone tools/setup.sh for a moment.\nexit 101\n' | $become_root tee "$policy" >/dev/null
    $become_root chmod 755 "$policy"
    policy_is_ours=yes
}

policy_is_ours=""
allow_service_starts() {
    [ -z "$policy_is_ours" ] || $become_root rm -f "$policy"
    policy_is_ours=""
    trap - EXIT INT TERM HUP
}

# We need the programs, not the service: do not let a package of ours bring one up at the next boot.
keep_off() {
    present systemctl || return 0
    if $become_root systemctl disable --quiet "$1.service" >/dev/null 2>&1; then
        say "The service $1 came with its package; it was not started and is off. To use it: systemctl enable --now $1"
    fi
}

# ------------------------------------------------------------------------------------------------ .venv

key_of() { # key_of FILE...: what an installation depends on
    { cat "$@" && .venv/bin/python -VV && pwd; } | cksum
}

installed() { # installed SET: .venv has the packages of requirements/SET.txt
    [ -e ".venv/.installed-$1" ] && [ "$(cat ".venv/.installed-$1")" = "$(key_of "requirements/$1.txt")" ]
}

pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input "$@"; }

# The programs in .venv name its folder: in one that was moved or copied they would start another's.
made_here() { grep -qF "$(pwd)/.venv" .venv/bin/activate; }

make_venv() {
    if new_enough .venv/bin/python && made_here; then
        .venv/bin/python -c 'import pip' >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null 2>&1 ||
            fail "the virtual environment .venv has no pip" "Remove it with \`make clean\` and try again."
        return
    fi
    say "Creating .venv with $("$python" -V)"
    "$python" -m venv --clear .venv || fail "$python cannot make a virtual environment in .venv" "Its message is above."
}

# A list names everything that is needed, so pip takes it as it is and resolves nothing (--no-deps): what the index offers today
# makes no difference.  Nothing is built either, since a build would take today's tools.
as_listed="--no-deps --require-hashes --only-binary :all:"

# Where a list names uv, uv installs the rest in a fifth of pip's CPU time.  It does not read pip's settings, so pip does the work where
# it was given an index of its own, and also where uv fails.
quickly() { # quickly LIST
    case $(pip config list) in *.index-url=* | *.no-index=*) return 1 ;; esac
    awk '/^uv==/ { found = 1 } found { print } found && !/\\$/ { exit }' "$1" >.venv/.uv.txt
    [ -s .venv/.uv.txt ] || return 1
    # shellcheck disable=SC2086  # options
    pip install -qq --no-compile $as_listed --requirement .venv/.uv.txt &&
        .venv/bin/uv pip install -q --python .venv/bin/python ${PIP_NO_CACHE_DIR:+--no-cache} $as_listed --requirement "$1" ||
        { say "uv could not do it; pip goes on." && return 1; }
}

install_requirements() { # install_requirements SET
    if installed "$1"; then return; fi
    if [ "$1" != dev ] && installed dev; then return; fi # dev contains the others, in the same versions
    say "Installing $(grep -c '==' "requirements/$1.txt") Python packages (requirements/$1.txt) into .venv; once, a minute or two"
    # shellcheck disable=SC2086  # options
    quickly "requirements/$1.txt" || pip install -qq --no-compile $as_listed --requirement "requirements/$1.txt" ||
        fail "pip could not install requirements/$1.txt" "Its message is above. Is the package index within reach?" \
            "Some packages come late to a new Python. An older one can be named: make PYTHON=/path/to/python3.13 ..."
    # On all cores, where pip takes one, and without the packages' own tests; some bring files that are no Python, which pip passes over, too.
    .venv/bin/python -m compileall -qq -j 0 -x '/tests/' .venv/lib >/dev/null 2>&1 || true
    changed=$1
}

install_cobblestone() {
    key=$(key_of pyproject.toml src/cobblestone/__init__.py)
    if [ -e .venv/.installed-self ] && [ "$(cat .venv/.installed-self)" = "$key" ]; then return; fi
    pip install -qq --no-build-isolation --no-deps --editable . ||
        fail "pip could not install cobblestone itself from $(pwd)" "Its message is above."
    printf '%s\n' "$key" >.venv/.installed-self
}

# After Cobblestone itself, so that its own requirements are looked at, too.
check_requirements() {
    [ -n "$changed" ] || return 0
    # Snakemake names connection-pool, which it never imports: the lists leave it out, since it has no wheel.
    if ! pip check >.venv/.check && grep -v '^snakemake .* requires connection-pool' .venv/.check >.venv/.wrong; then
        fail "the packages in .venv do not fit together" "$(cat .venv/.wrong)" \
            "Packages of an earlier list may be left in it. Remove it with \`make clean\` and try again."
    fi
    key_of "requirements/$changed.txt" >".venv/.installed-$changed"
}

# ----------------------------------------------------------------------------------------------------

goal=${1:-}
case $goal in
system) set_of_packages="" ;;
demo | browser) set_of_packages=core ;;
family) set_of_packages=lab ;;
check | test) set_of_packages=dev ;;
*) fail "tell me what for" "usage: tools/setup.sh demo|family|browser|check|test|system" ;;
esac

python=$(find_python)
collect_packages
[ -z "$packages" ] || install_packages
[ "$goal" != system ] || exit 0
[ -n "$python" ] || python=$(find_python)
[ -n "$python" ] || fail "there is no Python 3.11 or newer here" \
    "Install one and say where it is: make PYTHON=/path/to/python3 ..."
make_venv
changed=""
install_requirements "$set_of_packages"
install_cobblestone
check_requirements
