# Sourced by the scripts beside it: a Python environment with packages from the registry, kept below the build's directory.

# venv NAME PACKAGE==VERSION...: makes the environment where it is not there, and sets `python` to its interpreter.
# Returns 1 where there is no Python of 3.10 or later or no registry, and says so; ends the script where pip fails otherwise.
venv() {
    local target env name found=
    target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
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
    rm -rf "$env"
    mkdir -p "$target/interop"
    "$found" -m venv "$env"
    # pip fails alike for a registry that is away and for one that lacks the package; what it says tells them apart.
    if ! "$python" -m pip --disable-pip-version-check install --quiet --retries 1 --timeout 20 "$@" 2>"$env/pip.log"; then
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
