# Sourced by the other scripts here. Creates Python environments with packages from the registry, below the build directory.

# install PACKAGE==VERSION...: installs into the environment that `venv` made.
install() {
    local path
    path=$("$with_pip/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    PYTHONPATH=$path "$python" -m pip --disable-pip-version-check install --quiet --no-compile "$@"
}

# venv NAME PACKAGE==VERSION...: creates the environment if it doesn't exist, and sets `python` to its interpreter.
# Without Python 3.10 or later, or without the registry, prints a message and returns 1. If pip fails for another reason,
# exits the script.
venv() {
    local target env name found=
    target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    with_pip=$target/interop/pip
    env=$target/interop/$1-$(printf '%s\n' "$@" | cksum | cut -d' ' -f1)
    shift
    python=$env/bin/python
    [ ! -e "$env/complete" ] || return 0
    for name in python3 python; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            found=$name
            break
        fi
    done
    if [ -z "$found" ]; then
        echo "$0: not done: there is no Python of 3.10 or later that makes virtual environments" >&2
        return 1
    fi
    # Installing pip into every environment would take four seconds each, so all use the pip of one.
    if [ ! -e "$with_pip/complete" ]; then
        rm -rf "$with_pip"
        mkdir -p "$target/interop"
        "$found" -m venv "$with_pip"
        touch "$with_pip/complete"
    fi
    rm -rf "$env"
    "$found" -m venv --without-pip "$env"
    # pip's exit code is the same for an unreachable registry and for a missing package; only its output differs.
    if ! install --retries 1 --timeout 20 "$@" 2>"$env/pip.log"; then
        cat "$env/pip.log" >&2
        if grep -Eq 'Retrying \(|ConnectionError|NewConnectionError|Could not connect' "$env/pip.log"; then
            echo "$0: not done: the package registry is not at hand" >&2
            return 1
        fi
        echo "$0: pip could not install $*" >&2
        exit 1
    fi
    touch "$env/complete"
}
