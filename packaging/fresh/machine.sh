# Sourced by scripts that need machines: debootstrap trees of Debian suites, with their own processes, mounts and shared memory. Needs root.
#
# Trees use this machine's mirror and settings of apt, pip, Maven and trusted certificates. Downloads are cached in
# $HEADRACE_FRESH_CACHE, or ~/.cache/headrace-fresh, which may be deleted at any time. $packaging is the folder above this file.
cache=${HEADRACE_FRESH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/headrace-fresh}
pip_cache=${PIP_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pip}

if [ "$(id -u)" != 0 ]; then
    echo "fresh machines need root (debootstrap, mount, pivot_root); run as root" >&2
    exit 1
fi
for tool in debootstrap unshare pivot_root git; do
    command -v $tool >/dev/null || { "$packaging/ensure-packages" "fresh machines" debootstrap util-linux git; break; }
done

# The mirrors of Debian releases and security updates configured in this machine's apt.
mirrors() { apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' | sed -n "s/^Debian|$1|//p" | head -n 1; }
[ -n "$(mirrors Debian)" ] || apt-get -qq update
mirror=$(mirrors Debian)
security=$(mirrors Debian-Security)
if [ -z "$mirror" ]; then
    echo "fresh machines need a Debian mirror, but apt on this machine has none configured; add one to its sources" >&2
    exit 1
fi

# make_tree SUITE TREE: a minimal system with this machine's network settings.
make_tree() {
    mkdir -p "$cache/$1/tree" "$cache/$1/archives" "$pip_cache"
    debootstrap --variant=minbase --cache-dir="$cache/$1/tree" "$1" "$2" "$mirror"
    case $1 in
    testing) ;;
    *)
        echo "deb $mirror $1-updates main" >>"$2/etc/apt/sources.list"
        [ -z "$security" ] || echo "deb $security $1-security main" >>"$2/etc/apt/sources.list"
        ;;
    esac
    apt-config dump | grep -E '^Acquire::(https?|Check|Retries|ForceIPv)' >"$2/etc/apt/apt.conf.d/90settings-of-the-host" || true
    for file in /etc/resolv.conf /etc/hosts /etc/apt/auth.conf /etc/pip.conf /usr/local/share/ca-certificates \
        /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e $file ] || { mkdir -p "$2$(dirname $file)"; cp -RL $file "$2$(dirname $file)/"; }
    done
    for file in .config/pip/pip.conf .pip/pip.conf; do
        [ ! -e "$HOME/$file" ] || { mkdir -p "$2/root/$(dirname $file)"; cp "$HOME/$file" "$2/root/$file"; }
    done
    mkdir -p "$2/root/.m2" "$2/root/.cache/pip"
    for file in "$HOME/.m2/settings.xml" /etc/maven/settings.xml; do
        [ ! -e "$file" ] || { cp "$file" "$2/root/.m2/settings.xml"; break; }
    done
}

# copy_packages FROM TO: links or copies the packages that TO lacks. apt locks the folder of its downloads, so each tree has its own.
copy_packages() {
    mkdir -p "$2"
    for file in "$1"/*.deb; do
        [ ! -e "$file" ] || [ -e "$2/${file##*/}" ] || ln "$file" "$2/" 2>/dev/null || cp "$file" "$2/"
    done
}

# enter TREE SUITE COMMAND: runs a command in the tree, as the first process in new namespaces. Its mounts and processes end
# with it. It gets only the environment variables needed to reach the network.
enter() {
    copy_packages "$cache/$2/archives" "$1/var/cache/apt/archives"
    result=0
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        $(env | grep -E '^(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE=|CURL_CA_BUNDLE=|MAVEN_OPTS=|(https?|no|HTTPS?|NO)_(proxy|PROXY)=)[^ ]*$') \
        TREE="$1" PIP_DOWNLOADS="$pip_cache" \
        unshare --mount --pid --ipc --uts --fork --kill-child sh -euc '
            mount --bind "$TREE" "$TREE"
            cd "$TREE"
            mount -t proc proc proc
            mount -t sysfs -o ro sysfs sys
            mount --rbind /dev dev
            mount -t tmpfs -o mode=1777 tmpfs dev/shm
            mount --bind "$PIP_DOWNLOADS" root/.cache/pip
            pivot_root . mnt
            umount -l mnt
            # Not exec: the first process must reap orphans, which this shell does and make would not.
            chroot . sh -c "$0"
            exit $?
        ' "$3" || result=$?
    copy_packages "$1/var/cache/apt/archives" "$cache/$2/archives"
    return $result
}
