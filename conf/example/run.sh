#!/bin/bash
# `make run`: kubedns on the example manifests, and nanny (dnsmasq) and sidecar beside it, on loopback, until Ctrl-C.
# The manifests are copied to a directory of their own first, so that editing them is safe. Ports can be chosen: see below.
set -u
: "${BUILD:=build}"
: "${KUBEDNS_PORT:=10053}" "${DNSMASQ_PORT:=1053}" "${HEALTHZ_PORT:=8081}" "${SIDECAR_PORT:=10054}" "${NANNY_PORT:=10056}"
here=$(cd "$(dirname "$0")" && pwd)
name=web.default.svc.cluster.local

# Not below this directory: started as root, nanny becomes nobody, who may not look into every directory that root works in.
RUN_DIR=$(mktemp -d "${TMPDIR:-/tmp}/kubedns-run.XXXXXX") || exit 1
chmod 755 "$RUN_DIR"
mkdir -p "$RUN_DIR/run" && cp -R "$here/objects" "$here/config" "$RUN_DIR" || exit 1
[ "$(id -u)" != 0 ] || chown 65534:65534 "$RUN_DIR/run"

# Programs that run in the background of a script ignore Ctrl-C: it comes to us, and we tell them.
pids=()
# shellcheck disable=SC2317 # reached by the traps
finish() {
	trap - EXIT INT TERM HUP
	[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
	wait
	rm -rf "$RUN_DIR"
	exit "$1"
}
trap 'finish 1' EXIT
trap 'echo; finish 0' INT TERM HUP

start() {
	"$@" &
	pids+=($!)
}

# True when every program started is still there; their own last words say what is wrong.
alive() {
	local pid
	for pid in "${pids[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# Waits, for 10 seconds at most, until the server at port $1 answers for $name.
wait_for() {
	for _ in $(seq 100); do
		alive || return 1
		dig @127.0.0.1 -p "$1" +short +tries=1 +time=1 "$name" 2>/dev/null | grep -q '^[0-9]' && return 0
		sleep 0.1
	done
	echo "run.sh: port $1 does not answer for $name" >&2
	return 1
}

# Before anything starts: a second kubedns could share the first one's DNS port for a moment, and the first one's answer would look like
# its own.
for port in KUBEDNS_PORT DNSMASQ_PORT HEALTHZ_PORT SIDECAR_PORT NANNY_PORT; do
	if (exec 3<>"/dev/tcp/127.0.0.1/${!port}") 2>/dev/null; then
		holder=$(ss -Hltnp "sport = :${!port}" 2>/dev/null | sed -n 's/.*users:(("\([^"]*\)",pid=\([0-9]*\).*/ by \1 (pid \2)/p' | head -1)
		echo "run.sh: port ${!port} is in use$holder: end that program (another make run?), or choose another port: $port=$((${!port} + 10000)) make run" >&2
		exit 1
	fi
done

start "$BUILD/bin/kubedns" --objects-dir="$RUN_DIR/objects" --config-dir="$RUN_DIR/config" \
	--dns-bind-address=127.0.0.1 --dns-port="$KUBEDNS_PORT" \
	--healthz-bind-address=127.0.0.1 --healthz-port="$HEALTHZ_PORT" --drain=0s --negative-ttl=0
wait_for "$KUBEDNS_PORT" || exit 1

if [ -x "$BUILD/bin/nanny" ]; then
	start "$BUILD/bin/nanny" -restartDnsmasq=true -configDir="$RUN_DIR/config" -runDir="$RUN_DIR/run" \
		-kubednsServer="127.0.0.1:$KUBEDNS_PORT" -metricsAddr="127.0.0.1:$NANNY_PORT" -drain=0s -- \
		--port="$DNSMASQ_PORT" --listen-address=127.0.0.1 --bind-interfaces --cache-size=1000 \
		--server="/cluster.local/127.0.0.1#$KUBEDNS_PORT" \
		--server="/in-addr.arpa/127.0.0.1#$KUBEDNS_PORT" --server="/ip6.arpa/127.0.0.1#$KUBEDNS_PORT"
	wait_for "$DNSMASQ_PORT" || exit 1
fi
if [ -x "$BUILD/bin/sidecar" ]; then
	start "$BUILD/bin/sidecar" --prometheus-addr=127.0.0.1 --prometheus-port="$SIDECAR_PORT" --drain=0s \
		--dnsmasq-addr=127.0.0.1 --dnsmasq-port="$DNSMASQ_PORT" \
		--probe="kubedns,127.0.0.1:$KUBEDNS_PORT,kubernetes.default.svc.cluster.local,5,A" \
		--probe="dnsmasq,127.0.0.1:$DNSMASQ_PORT,kubernetes.default.svc.cluster.local,5,A" \
		--kubedns-url="http://127.0.0.1:$HEALTHZ_PORT" --nanny-url="http://127.0.0.1:$NANNY_PORT"
fi

cat <<TEXT

kubedns answers on 127.0.0.1 port $KUBEDNS_PORT, UDP and TCP. In another terminal:

  dig @127.0.0.1 -p $KUBEDNS_PORT web.default.svc.cluster.local        # a Service's address
  dig @127.0.0.1 -p $KUBEDNS_PORT db-0.db.default.svc.cluster.local    # one member of a headless Service
  dig @127.0.0.1 -p $KUBEDNS_PORT _http._tcp.web.default.svc.cluster.local SRV

TEXT
[ -x "$BUILD/bin/nanny" ] && echo "The same, and every other name, through dnsmasq's cache: port $DNSMASQ_PORT."
[ -x "$BUILD/bin/sidecar" ] && echo "Is it well: http://127.0.0.1:$SIDECAR_PORT/"
cat <<TEXT
Why a name is answered as it is: curl '127.0.0.1:$HEALTHZ_PORT/explain?name=web.default.svc.cluster.local'

Edit $RUN_DIR/objects/web.yaml and ask again; upstreams and stub domains are in $RUN_DIR/config.
Ctrl-C ends everything.

TEXT
wait -n
echo "run.sh: one of the programs has ended; so does the rest" >&2
exit 1
