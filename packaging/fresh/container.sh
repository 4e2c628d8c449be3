# Sourced by tests of packages, after machine.sh: booted systemd-nspawn containers without a network but their loopback. Needs root.
for tool in systemd-nspawn nsenter; do
    command -v $tool >/dev/null || { "$packaging/ensure-packages" "containers" systemd-container util-linux; break; }
done

# make_container SUITE PACKAGE...: a tree with systemd and these Debian packages, in $tree. It is removed when the script ends.
# If HEADRACE_PACKAGE_TREES names a folder, its SUITE-run is copied instead, or SUITE-minimal if no packages are named.
make_container() {
    suite=$1
    shift
    tree=$(mktemp -d "${TMPDIR:-/var/tmp}/headrace-packages-$suite.XXXXXX")
    container=
    trap '[ -z "$container" ] || { kill $container; wait $container || true; } 2>/dev/null; umount "$tree"; rm -rf --one-file-system "$tree" "$tree.console" "$tree.step"' EXIT
    trap 'exit 1' INT TERM
    # In memory: a broker takes no messages on a disk that others have filled to 90 %.
    mount -t tmpfs -o size=6G,mode=755 headrace-machine "$tree"
    if [ -n "${HEADRACE_PACKAGE_TREES:-}" ]; then
        cp -a "$HEADRACE_PACKAGE_TREES/$suite-$([ $# = 0 ] && echo minimal || echo run)/." "$tree/"
        return
    fi
    make_tree "$suite" "$tree" >"$tree.console" 2>&1
    enter "$tree" "$suite" "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update
        apt-get -qq -y install --no-install-recommends systemd systemd-sysv dbus $*" >>"$tree.console" 2>&1 || { cat "$tree.console"; return 1; }
}

# remove_container: ends and deletes the container.
remove_container() {
    power_off
    container=
    umount "$tree"
    rm -rf --one-file-system "$tree" "$tree.console" "$tree.step"
    trap - EXIT
}

# boot: starts the container and waits until its services are up. Sets $first, the pid of its first process.
boot() {
    systemd-nspawn --quiet --boot --directory="$tree" --machine="headrace-$$" --private-network --register=no --keep-unit \
        --link-journal=no --system-call-filter='landlock_create_ruleset landlock_add_rule landlock_restrict_self' </dev/null >>"$tree.console" 2>&1 &
    container=$!
    tries=0
    until first=$(pgrep -P $container) && inside 'systemctl is-system-running' 2>/dev/null | grep -qE 'running|degraded'; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { cat "$tree.console"; echo "packages: the container did not boot"; return 1; }
        sleep 0.2
    done
}

# inside COMMAND: runs a command in the container, as root.
inside() {
    nsenter --target "$first" --mount --uts --ipc --net --pid --cgroup -- env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$1"
}

power_off() {
    inside 'systemctl poweroff' 2>/dev/null || true
    wait $container || true
}

# step NAME COMMAND: runs a command in the container as one step of the test.
step() {
    report "$1" inside "$prelude $2"
}

# step_outside NAME COMMAND...: runs a program of this machine in the container's network as one step of the test.
step_outside() {
    name=$1
    shift
    report "$name" nsenter --target "$first" --net -- "$@"
}

# report NAME COMMAND...: runs the command of a step, and prints its time or its output.
report() {
    began=$(date +%s%N)
    name=$1
    shift
    if "$@" >"$tree.step" 2>&1; then
        printf 'packages: %s: passed: %-66s %6d ms\n' "$suite" "$name" $((($(date +%s%N) - began) / 1000000))
        grep '^note: ' "$tree.step" | sed 's/^note: /              /' || true
    else
        echo "packages: $suite: FAILED: $name"
        cat "$tree.step"
        inside 'journalctl --no-pager -u headrace -n 60; systemctl status headrace --no-pager; tail -n 30 /var/log/headrace/headrace.log' || true
        return 1
    fi
}

# What the steps use. `until_true COMMAND` waits until it succeeds, a minute at most.
prelude='systemctl reset-failed headrace 2>/dev/null || true
until_true() { tries=0; until "$@"; do tries=$((tries + 1)); [ $tries -lt 300 ] || { echo "not within a minute: $*"; return 1; }; sleep 0.2; done; }
property() { systemctl show --value -p "$1" headrace; }
exchange() { /usr/lib/headrace/bin/python3 -I /root/exchange.py "$@"; }
pid_of() { headrace status --json | /usr/lib/headrace/bin/python3 -c "import json, sys; print(json.load(sys.stdin)[\"roles\"][\"$1\"][\"pid\"])"; }
is_active() { [ "$(property ActiveState)" = active ]; }
is_restarted() { is_active && [ "$(property MainPID)" != "$1" ]; }
has_role() { headrace status | grep -q "$1 .*running"; }
has_role_in() { headrace status --data "$1" | grep -q "$2 .*running"; }
has_status() { property StatusText | grep -qx "running, [0-9]* roles"; }
console_sees_broker() {
    /usr/lib/headrace/bin/python3 -I -c "import urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:8080/metrics\").read().decode())" 2>/dev/null |
        grep -q "^headrace_broker_up{.*} 1.0"
}
fails() { if "$@"; then echo "succeeded, but should have failed: $*"; return 1; fi; }
is_another() { new=$(pid_of "$1") && [ "$new" != None ] && [ "$new" != "$2" ]; }
'
