#!/bin/bash
# `make test-dirty`: runs the tests on a machine with many other files, programs and settings, like a newcomer's machine. None of these may
# change the result of a test.
#
# All of this is in separate namespaces (mount, network, process), so the real machine is not affected:
#	/tmp          manifests in YAML and JSON, broken manifests, a Secret, a directory that nobody may read
#	ports         53: a dnsmasq; 1053, 8081, 10053, 10054, 10056: `make run`; 10055, 10153, 8053, 5353: a program that never answers
#	resolv.conf   a server that does not answer, search domains, ndots:5
#	environment   a proxy, a kubeconfig that is broken, another time zone, a Kubernetes API that is not there
#	network       a default route that leads nowhere, a second address
# Needs root. `make test-dirty PYTEST_ARGS="-k name"` or DIRTY_STAGES="unit" runs a part.
set -u
: "${BUILD:=build}" "${DIRTY_STAGES:=unit replay system}"
cd "$(dirname "$0")/.." || exit 1

if [ "${1:-}" != inside ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "dirty.sh: needs root to create namespaces" >&2
		exit 1
	fi
	case $PWD/ in /tmp/*)
		echo "dirty.sh: replaces /tmp: move the sources elsewhere" >&2
		exit 1
		;;
	esac
	exec unshare --mount --net --pid --fork --mount-proc --kill-child -- bash "$0" inside
fi

fail() {
	echo "dirty.sh: $1" >&2
	exit 1
}

# The first process of a process namespace ignores signals that it does not handle. When it ends, all other processes of the namespace end.
trap 'exit 1' INT TERM HUP

# --- network: packets to other machines are dropped, as behind a firewall ---
ip link set lo up
ip link add uplink type veth peer name nowhere || fail "no interface"
ip addr add 198.51.100.7/24 dev uplink
ip link set nowhere up
ip link set uplink up
ip neigh add 198.51.100.1 lladdr 02:00:00:00:00:01 dev uplink nud permanent
ip -6 addr add 2001:db8:7::7/64 dev uplink nodad 2>/dev/null
ip route add default via 198.51.100.1

# --- files ---
mount -t tmpfs -o mode=1777 none /tmp || fail "no /tmp of its own"
mkdir -p /tmp/manifests /tmp/locked
cp conf/example/objects/*.yaml /tmp
printf 'kind: Service\napiVersion: v1\nmetadata: {name: kubernetes, namespace: default}\nspec: {clusterIP: 10.96.0.66, ports: [{port: 443}]}\n' >/tmp/service.yml
printf 'kind: Service\nmetadata: {name: broken\n' | tee /tmp/broken.yaml >/tmp/manifests/broken.yaml
printf '{"kind": "List", "items": [{"kind": "Service"}]}\n' >/tmp/list.json
printf '["not", "a", "manifest"]\n' >/tmp/data.json
printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: token}\n' >/tmp/secret.yaml
head -c 100000 /dev/urandom >/tmp/random.yaml
chmod 000 /tmp/locked /tmp/secret.yaml
resolv=/tmp/resolv.conf kubeconfig=/tmp/kubeconfig
printf 'nameserver 198.51.100.53\nnameserver 127.0.0.1\nsearch corp.example default.svc.cluster.local cluster.local\noptions ndots:5\n' >$resolv
mount --bind $resolv "$(readlink -f /etc/resolv.conf)" || fail "no resolv.conf of its own"
printf 'apiVersion: v1\nkind: Config\ncurrent-context: nowhere\n' >$kubeconfig

# --- other programs ---
others=$(mktemp -d)
chmod 755 "$others"
dnsmasq -k --no-resolv --no-hosts --log-facility=- --address=/#/192.0.2.66 --pid-file="$others/pid" >"$others/dnsmasq.log" 2>&1 &
BUILD=$BUILD bash conf/example/run.sh >"$others/run.log" 2>&1 &
"${PYTHON:-python3}" - 10055 10153 8053 5353 >"$others/holder.log" 2>&1 <<'HOLDER' &
import signal, socket, sys
held = []
for port in map(int, sys.argv[1:]):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        held.append(socket.socket(socket.AF_INET6, kind))
        held[-1].bind(("::", port))
        if kind == socket.SOCK_STREAM:
            held[-1].listen()
print("held", flush=True)
signal.pause()
HOLDER

# True if all these programs are still running. Without them the run would prove nothing.
dirty() {
	grep -q "Ctrl-C stops all programs" "$others/run.log" && grep -q held "$others/holder.log" &&
		[ "$(dig @127.0.0.1 +short +tries=1 +time=1 any.example)" = 192.0.2.66 ]
}
for try in $(seq 100); do
	dirty && break
	[ "$try" != 100 ] || { cat "$others"/*.log; fail "the other programs did not start"; }
	sleep 0.2
done
echo "dirty.sh: taken ports: $(ss -Hltn | awk '{ sub(/.*:/, "", $4); print $4 }' | sort -nu | paste -sd ' ')"

export http_proxy=http://198.51.100.8:3128 https_proxy=http://198.51.100.8:3128 HTTP_PROXY=http://198.51.100.8:3128 \
	HTTPS_PROXY=http://198.51.100.8:3128 ALL_PROXY=http://198.51.100.8:3128 KUBECONFIG=$kubeconfig TZ=Pacific/Kiritimati \
	KUBERNETES_SERVICE_HOST=198.51.100.9 KUBERNETES_SERVICE_PORT=443
# shellcheck disable=SC2086 # a list of stages
BUILD=$BUILD sh tests/run.sh $DIRTY_STAGES
status=$?
dirty || fail "the tests ended another program: they may end only what they start"
exit $status
