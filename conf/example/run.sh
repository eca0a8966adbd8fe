#!/bin/bash
# `make run`: runs kubedns on the example manifests, with nanny (dnsmasq) and sidecar, on loopback, until Ctrl-C. The script first copies
# the manifests to a new directory, so editing the copies is safe. Variables choose the ports: see below.
set -u
: "${BUILD:=build}"
: "${KUBEDNS_PORT:=10053}" "${DNSMASQ_PORT:=1053}" "${HEALTHZ_PORT:=8081}" "${SIDECAR_PORT:=10054}" "${NANNY_PORT:=10056}"
here=$(cd "$(dirname "$0")" && pwd)
name=web.default.svc.cluster.local

# The copies are not below this directory. A nanny that was started as root becomes the user nobody, who may have no access here.
RUN_DIR=$(mktemp -d "${TMPDIR:-/tmp}/kubedns-run.XXXXXX") || exit 1
chmod 755 "$RUN_DIR"
mkdir -p "$RUN_DIR/run" && cp -R "$here/objects" "$here/config" "$RUN_DIR" || exit 1
[ "$(id -u)" != 0 ] || chown 65534:65534 "$RUN_DIR/run"

# Background programs of a script ignore Ctrl-C. The script receives it and stops them.
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

# True if every started program is still running. A program that exits logs the reason itself.
alive() {
	local pid
	for pid in "${pids[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# True if a program listens on TCP port $1.
listens() {
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Waits for at most 10 seconds until the server on port $1 answers for $name.
wait_for() {
	for _ in $(seq 100); do
		alive || return 1
		dig @127.0.0.1 -p "$1" +short +tries=1 +time=1 "$name" 2>/dev/null | grep -q '^[0-9]' && return 0
		sleep 0.1
	done
	echo "run.sh: port $1 does not answer for $name" >&2
	return 1
}

# Checks the ports before starting anything. A second kubedns could share the DNS port of a running kubedns for a moment. The script would
# then take an answer of the running kubedns for an answer of its own.
for port in KUBEDNS_PORT DNSMASQ_PORT HEALTHZ_PORT SIDECAR_PORT NANNY_PORT; do
	if listens "${!port}"; then
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
	for _ in $(seq 100); do # the text below has the page's address
		alive || exit 1
		! listens "$SIDECAR_PORT" || break
		sleep 0.1
	done
fi

cat <<TEXT

kubedns answers on 127.0.0.1 port $KUBEDNS_PORT, UDP and TCP. In another terminal:

  dig @127.0.0.1 -p $KUBEDNS_PORT web.default.svc.cluster.local        # a Service's address
  dig @127.0.0.1 -p $KUBEDNS_PORT db-0.db.default.svc.cluster.local    # a pod of a headless Service
  dig @127.0.0.1 -p $KUBEDNS_PORT _http._tcp.web.default.svc.cluster.local SRV

TEXT
[ -x "$BUILD/bin/nanny" ] && echo "dnsmasq caches and forwards on port $DNSMASQ_PORT: query external names and stub domains there (the classic topology)."
[ -x "$BUILD/bin/sidecar" ] && echo "Status page: http://127.0.0.1:$SIDECAR_PORT/"
cat <<TEXT
Explain an answer: curl '127.0.0.1:$HEALTHZ_PORT/explain?name=web.default.svc.cluster.local'

Edit $RUN_DIR/objects/web.yaml and query again. Put upstream servers and stub domains into $RUN_DIR/config.
Ctrl-C stops all programs.

TEXT
wait -n
echo "run.sh: a program has exited: stopping the others" >&2
exit 1
