# Shell functions that make and keep the virtual environment .venv of this repository.
# Sourced by ./veilnet and ./test, which set `root` (the repository) and `program` (for messages).
# shellcheck shell=sh disable=SC2154

# In another locale Python neither writes nor finds the path of a folder with an umlaut.
[ "$(locale charmap 2>/dev/null)" = UTF-8 ] || export LC_ALL=C.UTF-8

venv=$root/.venv
log=$venv/setup.log
# What to install, by hashes; requirements-oldest.txt has the oldest versions that are allowed.
requirements=$root/${VEILNET_REQUIREMENTS:-requirements.txt}

fail() {
    printf '%s: %s\n' "$program" "$1" >&2
    exit 1
}

# What the environment depends on: if this line changes, the set-up is done again. The resolved interpreter is
# part of it because an upgrade of the system's Python leaves .venv without its packages; the path of the
# repository because an editable install points there.
fingerprint() {
    interpreter=$(readlink -f "$venv/bin/python" 2>/dev/null) || interpreter=unknown
    printf '%s %s %s\n' "$(cat "$root/pyproject.toml" "$requirements" | cksum)" "$interpreter" "$root"
}

# is_ready EXTRAS: is the environment with these extras (or with dev, which has them all) in place and current?
is_ready() {
    [ ! -e "$venv/.unfinished" ] && [ -x "$venv/bin/python" ] && { is_current "$1" || is_current dev; }
}

# is_ready_at_all: is the environment in place and current, with whatever extras?
is_ready_at_all() {
    [ ! -e "$venv/.unfinished" ] && [ -x "$venv/bin/python" ] || return 1
    for mark in "$venv"/.ready-*; do
        is_current "${mark##*/.ready-}" && return 0
    done
    return 1
}

is_current() {
    [ -r "$venv/.ready-$1" ] && [ "$(cat "$venv/.ready-$1")" = "$(fingerprint)" ]
}

# ensure_environment EXTRAS: set up .venv with the project and these extras (plot,sklearn), unless that was done.
ensure_environment() {
    is_ready "$1" && return 0
    find_python
    hold_lock
    if ! is_ready "$1"; then
        [ -w "$root" ] || fail "cannot write to $root: make it writable, or copy the repository to a folder of yours"
        if is_ready_at_all; then
            printf 'adding to veilnet what this command needs (once) ...\n' >&2
        else
            printf 'setting up veilnet (once) ...\n' >&2
        fi
        trap 'exit 129' HUP
        trap 'exit 130' INT
        trap 'exit 143' TERM
        make_venv
        install_project "$1"
        trap - HUP INT TERM
    fi
    exec 9<&-
}

# Sets `python` to an interpreter that is new enough, and `version` to its "3.x".
find_python() {
    found=
    for python in ${VEILNET_PYTHON:+"$VEILNET_PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        command -v "$python" >/dev/null 2>&1 || continue
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return 0
        found=${found:-", found only $version"}
    done
    fail "Python 3.11 or newer is needed$found: install it (Debian: apt-get install python3 python3-venv) and try again"
}

# One set-up at a time. The lock belongs to descriptor 9, which this shell keeps: it ends with the set-up however
# that ends, so it can never be left behind.
hold_lock() {
    exec 9<"$root/pyproject.toml"
    "$python" -c '
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.stderr.write("waiting for another set-up of veilnet to finish ...\n")
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    pass  # a file system without locks
' || fail "could not lock $root/pyproject.toml"
}

# A .venv that works is kept; one that was interrupted, or whose Python is gone, is made anew.
make_venv() {
    if [ ! -e "$venv/.unfinished" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null; then
        return 0
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        install_debian_packages "Python's venv module is missing" "python$version-venv" || fail \
            "Python's venv module is missing: run 'sudo apt-get install python$version-venv' and try again"
    fi
    mkdir -p "$venv" 2>/dev/null && : >"$venv/.unfinished" ||
        fail "cannot write to $venv: make it writable, or remove it, and try again"
    message=$("$python" -m venv --clear "$venv" 2>&1 </dev/null)
    status=$?
    mkdir -p "$venv" && : >"$venv/.unfinished"
    printf '%s\n' "$message" >"$log"
    [ $status -eq 0 ] || fail "could not make the virtual environment $venv; what happened is in $log"
}

install_project() {
    # Other extras stay installed, and their marks true, unless the requirements changed.
    for mark in "$venv"/.ready-*; do
        is_current "${mark##*/.ready-}" || rm -f "$mark"
    done
    : >"$venv/.unfinished"
    : >"$log"
    packages_for "$1" >"$venv/requirements.txt"
    # Source archives are left out: what they are built by has no hash. The project itself is built by what is there.
    { pip_install --require-hashes --only-binary :all: --requirement "$venv/requirements.txt" &&
        pip_install --no-build-isolation --editable ".[$1]"; } || explain_pip_failure
    fingerprint >"$venv/.ready-$1"
    rm -f "$venv/.unfinished"
}

# packages_for EXTRAS: the lines of the requirements that these extras (plot,sklearn) need.
packages_for() {
    awk -v extras=",base,$1," '
        /^# for / { wanted = 0; for (k = 3; k <= NF; k++) if (index(extras, "," $k ",")) wanted = 1 }
        wanted' "$requirements"
}

# Everything that is needed is in the list, so that pip need not look for it. Modules are compiled when first imported, not all at once: that would be half of the first start.
pip_install() (
    cd "$root" || exit 1
    PIP_USER=0 "$venv/bin/python" -m pip --disable-pip-version-check --no-input --retries 2 \
        install --no-compile --no-deps "$@" >>"$log" 2>&1 </dev/null
)

# pip fetches everything before it changes anything, and undoes what it began: after a failure that it reports
# itself, an environment which worked before still does.
explain_pip_failure() {
    rm -f "$venv/.unfinished"
    if grep -q -i 'no space left' "$log"; then
        reason='the disk is full: free some space'
    elif grep -q -i 'permission denied' "$log"; then
        reason="no permission to write to $venv: make it writable, or remove it,"
    elif grep -q -i 'do not match the hashes' "$log"; then
        reason='a package is not the one that was tested, and was not installed: see the log, take another package index,'
    elif grep -q -i -E 'connection (broken|error|refused|reset)|connectionerror|resolution|timed out|timeout|ssl' "$log"; then
        reason='its packages cannot be fetched: connect to the network, or point pip at a package index (PIP_INDEX_URL),'
    elif grep -q -i -E 'could not find a version|no matching distribution|requires-python' "$log"; then
        reason="$("$venv/bin/python" --version) has no such package: take another Python (VEILNET_PYTHON) or package index (PIP_INDEX_URL)"
    else
        reason='pip could not install its packages: see the log'
    fi
    # pip's own words, of which a list of all versions there are is the longest
    grep -E '^ *ERROR' "$log" | tail -n 3 | cut -c 1-400 >&2
    fail "$reason and try again; details in $log"
}

# Debian puts the broker where only root's PATH looks.
has_mosquitto() {
    command -v mosquitto >/dev/null 2>&1 || [ -x /usr/sbin/mosquitto ]
}

# What --no-system, before any other argument, sets to "no": nothing is installed outside of .venv.
system=yes

# install_debian_packages WHY NAME...: true if all are there in the end.
install_debian_packages() {
    why=$1
    shift
    missing=
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    [ "$system" = yes ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    printf "%s: installing%s by apt-get, to stay; './%s --no-system ...' leaves it out ...\n" \
        "$why" "$missing" "$program" >&2
    # shellcheck disable=SC2086 # one word per package
    apt_get install $missing || { apt_get update && apt_get install $missing; }
}

apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@" >/dev/null 2>&1 </dev/null
}
