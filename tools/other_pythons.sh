#!/bin/sh
# Runs the two commands, ./veilnet demo and ./test, on other machines' Pythons, each in a copy of what is committed:
#   sudo tools/other_pythons.sh FOLDER bookworm trixie          Debian's own, in a chroot, as an ordinary user
#   sudo tools/other_pythons.sh --bare FOLDER trixie            the same without a browser and a broker
#   tools/other_pythons.sh FOLDER python3.12 python3.14         Pythons of this machine
# What follows -- goes to ./test (-- --fast). FOLDER keeps the systems (a gigabyte each) and the logs for the next time.
# Ends with a table of machine, command and result; exits with 1 if any of them failed.
set -u
program=other_pythons
root=$(CDPATH='' cd -P -- "$(dirname "$0")/.." && pwd) || exit 1
# Where this machine's own packages come from, unless DEBIAN_MIRROR says otherwise.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | head -n 1)}

fail() {
    printf '%s: %s\n' "$program" "$1" >&2
    exit 2
}

# Debian's packages beyond Python: a browser and a broker, without which tests are skipped.
packages="mosquitto chromium libatomic1"
[ "${1-}" != --bare ] || { packages=; shift; }
[ $# -ge 2 ] || fail "expected a folder and the names of Debian's releases or of Pythons; found $#: see the top of $0"
mkdir -p "$1" && folder=$(CDPATH='' cd -P -- "$1" && pwd) || exit 1
shift
machines=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    machines="$machines $1"
    shift
done
[ $# -eq 0 ] || shift
results=$folder/results.txt
: >"$results"

# copy_to PLACE: what is committed, and nothing else, with an environment of its own.
copy_to() {
    rm -rf "$1" && git clone -q --no-hardlinks "$root" "$1"
}

# note MACHINE COMMAND STATUS SECONDS LOG: a line of the table.
note() {
    [ "$3" -eq 0 ] && result=passed || { result="FAILED (see $5)"; failed=1; }
    printf '%-40s %-18s %s in %s s\n' "$1" "$2" "$result" "$4" | tee -a "$results"
}

# try MACHINE WHERE COMMAND...: both commands, each run by COMMAND... with a line of shell; "$test" has the arguments of ./test.
try() {
    machine=$1 where=$2
    shift 2
    for line in './veilnet demo' "./test$test"; do
        log=$folder/$where-$(printf '%s' "$line" | tr -dc 'a-z').log
        began=$(date +%s)
        "$@" "$line" >"$log" 2>&1 </dev/null
        note "$machine" "$line" $? $(($(date +%s) - began)) "$log"
    done
}

here() (
    cd "$copy" && VEILNET_PYTHON=$python sh -c "$1"
)

# inside LINE: in the chroot, as root. Its mounts are this process's alone, and end with it.
inside() {
    unshare --mount --pid --fork --kill-child sh -c '
        for each in dev sys; do mount --rbind "/$each" "$1/$each" || exit 1; done
        mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" || exit 1
        DEBIAN_FRONTEND=noninteractive exec chroot "$1" sh -c "$2"' sh "$system" "$1"
}

# there LINE: in the chroot's copy, as an ordinary user.
there() {
    inside "su - somebody -c \"cd veilnet && $1\""
}

make_system() {
    [ ! -e "$system/.ready" ] || return 0
    command -v debootstrap >/dev/null 2>&1 || fail "debootstrap is missing: run 'sudo apt-get install debootstrap'"
    script=/usr/share/debootstrap/scripts/$release
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # newer than this machine's debootstrap
    rm -rf "$system"
    {
        debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates,git \
            "$release" "$system" "$mirror" "$script" &&
            lend_settings &&
            { [ -z "$packages" ] || inside "apt-get -o Acquire::Check-Valid-Until=false update && apt-get install -y -q --no-install-recommends $packages"; } &&
            chroot "$system" useradd --create-home --shell /bin/sh somebody
    } >"$system.log" 2>&1 </dev/null || fail "$release could not be installed; see $system.log"
    : >"$system/.ready"
}

# What this machine needs to reach its package index, the chroot needs too.
lend_settings() {
    cp /etc/resolv.conf /etc/hosts "$system/etc/"
    [ ! -r /etc/ssl/certs/ca-certificates.crt ] ||
        cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/ca-certificates.crt"
    env | sed -n -E "s/^(PIP_INDEX_URL|PIP_CERT|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)=(.*)/export \1='\2'/p" \
        >"$system/etc/profile.d/lent.sh"
}

failed=0
test=
for each in "$@"; do test="$test '$each'"; done
for release in $machines; do
    case $release in
        *python*)
            python=$release copy=$folder/$(basename "$release")
            version=$("$python" --version) || fail "$python: no such Python"
            copy_to "$copy" || exit 1
            try "$version ($python)" "$(basename "$release")" here
            ;;
        *)
            [ "$(id -u)" -eq 0 ] || fail "a chroot ($release) needs root: run it with sudo"
            system=$folder/$release
            [ -n "$packages" ] || system=$system-bare
            make_system
            lend_settings
            copy_to "$system/home/somebody/veilnet" && chroot "$system" chown -R somebody: /home/somebody || exit 1
            version=$(chroot "$system" python3 --version)
            try "$version (Debian $release${packages:+, broker, browser})" "$(basename "$system")" there
            ;;
    esac
done
printf '\n'
cat "$results"
exit "$failed"
