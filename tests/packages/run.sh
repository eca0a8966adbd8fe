#!/bin/bash
# shellcheck disable=SC2016 # the container's shell expands these strings
# `make test-deb`: tests the Debian packages in a clean container with systemd, like an edge box without Kubernetes. It installs the
# packages, sends queries, makes a configuration mistake, upgrades, removes and purges the packages. Port 53 is privileged in the container.
# The first failure ends the run.
set -eu
# shellcheck disable=SC1091 # the machine's own
: "${BUILD:=build}" "${BASE:=kubedns-base:$(. /etc/os-release && echo "$VERSION_CODENAME")}"
cd "$(dirname "$0")/../.."
box=dnst-packages-$$
debs=$(mktemp -d)
trap 'docker rm -f $box >/dev/null 2>&1; rm -rf "$debs"' EXIT
trap 'exit 1' INT TERM HUP

say() { echo "test-deb: $*"; }
die() {
	say "FAILED: $*"
	docker exec $box journalctl --no-pager -n 60 -u 'kubedns*' || true
	exit 1
}
in_box() { docker exec -i $box sh -c "$1"; }
# Runs $2 in the container until it succeeds, for at most 30 s.
await() {
	for _ in $(seq 300); do
		in_box "$2" >/dev/null 2>&1 && return
		sleep 0.1
	done
	die "$1"
}
# Checks that the output of $2 in the container contains $3.
expect() { in_box "$2" 2>&1 | grep -qF -- "$3" || die "$1: no \"$3\" in: $(in_box "$2" 2>&1 | head -5)"; }
apt() { in_box "cd /debs && DEBIAN_FRONTEND=noninteractive apt-get $1 >/tmp/apt.log 2>&1 || { tail -20 /tmp/apt.log; exit 1; }" || die "apt-get $1"; }
answers() { await "$1 is not $2 at port ${3:-53}" "dig @127.0.0.1 -p ${3:-53} +tries=1 +time=1 +short $1 | grep -qxF -- '$2'"; }

cp "$BUILD"/deb/*_*.deb "$debs"
rm -f "$debs"/*-dbgsym_*
sh conf/image/base.sh "$BASE"
docker build -q --force-rm --build-arg BASE="$BASE" -t dnst-packages tests/packages >/dev/null
docker run -d --name $box --cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
	--tmpfs /run --tmpfs /tmp:exec -v /sys/fs/cgroup:/sys/fs/cgroup --sysctl net.ipv4.ip_unprivileged_port_start=1024 dnst-packages >/dev/null
docker cp "$debs" $box:/debs >/dev/null
await "systemd is not up" "systemctl is-system-running"
in_box "apt-get update -qq"

say "kubedns: is installed and answers"
apt "install -y --no-install-recommends /debs/kubedns_*.deb"
answers "TXT dns-version.cluster.local" '"1.1.0"'
in_box 'test $(ps -o uid= -C kubedns) -gt 60000' || die "kubedns runs as $(in_box 'ps -o user= -C kubedns')"
for page in man8/kubedns.8 man5/kubedns-config.5 man7/kubedns-transfer.7; do
	in_box "dpkg -L kubedns | grep -q /$page.gz" || die "no manual page $page"
done

say "a new manifest takes effect immediately; a mistake is reported with file and line, and the old data stays"
in_box 'cat >/etc/kubedns/objects/web.yaml' <<'YAML'
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.9.8.7, ports: [{ name: http, port: 80 }] }
YAML
answers "web.default.svc.cluster.local" 10.9.8.7
in_box 'printf "kind: Service\nmetadata: { name: web\nspec: 1\n" >/etc/kubedns/objects/broken.yaml'
await "the mistake is not in the journal" "journalctl -u kubedns | grep -q 'broken.yaml:[0-9]'"
say "  $(in_box "journalctl -u kubedns -o cat | grep broken.yaml | head -1")"
expect "--check" "kubedns --check --objects-dir=/etc/kubedns/objects" "broken.yaml:"
answers "web.default.svc.cluster.local" 10.9.8.7
in_box 'rm /etc/kubedns/objects/broken.yaml'

say "kubedns-nanny and kubedns-sidecar: dnsmasq caches behind kubedns, and the page shows that DNS is healthy"
apt "install -y --no-install-recommends /debs/kubedns-nanny_*.deb /debs/kubedns-sidecar_*.deb"
in_box "sed -i 's/--drain=0s\"/--drain=0s --resolver=127.0.0.1:253\"/' /etc/default/kubedns && systemctl restart kubedns"
in_box "sed -i 's/-k --port/-k --host-record=outside.example,192.0.2.7 --port/' /etc/default/kubedns-nanny && systemctl restart kubedns-nanny"
answers "outside.example" 192.0.2.7 253
answers "outside.example" 192.0.2.7
answers "web.default.svc.cluster.local" 10.9.8.7
await "the sidecar's probe" "curl -sf http://127.0.0.1:10054/healthcheck/kubedns"
in_box 'test $(ps -o uid= -C dnsmasq) -gt 60000' || die "dnsmasq runs as $(in_box 'ps -o user= -C dnsmasq')"

say "no HTTP request ends a program"
docker cp tests/http_requests.py $box:/ >/dev/null
processes=$(in_box "systemctl show -P MainPID kubedns kubedns-nanny kubedns-sidecar")
for port in 8081 10054 10056; do
	in_box "python3 /http_requests.py 127.0.0.1:$port/healthz >/tmp/requests.log 2>&1" || die "$(in_box 'cat /tmp/requests.log')"
	say "  $(in_box 'head -1 /tmp/requests.log')"
done
[ "$processes" = "$(in_box "systemctl show -P MainPID kubedns kubedns-nanny kubedns-sidecar")" ] || die "a program was restarted"

say "a wrong flag is reported, and the service is not restarted again and again"
in_box "sed -i 's/--dns-port=53/--dns-port=53x/' /etc/default/kubedns; systemctl restart kubedns || true"
await "it does not give up" "systemctl is-failed kubedns"
expect "the wrong flag" "journalctl -u kubedns -o cat" 'dns-port: "53x" is not a port'
line=$(in_box "grep -n ^KUBEDNS_ARGS= /etc/default/kubedns" | cut -d: -f1)
expect "its file and line" "journalctl -u kubedns -o cat" "the flags are in /etc/default/kubedns:$line, KUBEDNS_ARGS"
say "  $(in_box "journalctl -u kubedns -o cat | grep -A1 53x | head -2")"
in_box "sed -i 's/--dns-port=53x/--dns-port=53/' /etc/default/kubedns; systemctl restart kubedns"
answers "web.default.svc.cluster.local" 10.9.8.7

say "the same for the other two services"
while read -r service right wrong name; do
	in_box "cp /etc/default/$service /tmp/kept; sed -i 's/$right/$wrong/' /etc/default/$service; systemctl restart $service || true" </dev/null
	await "$service does not give up" "systemctl is-failed $service"
	line=$(in_box "grep -n ^${name}_ARGS= /etc/default/$service" </dev/null | cut -d: -f1)
	expect "$service's file and line" "journalctl -u $service -o cat" "the flags are in /etc/default/$service:$line, ${name}_ARGS"
	in_box "cat /tmp/kept >/etc/default/$service; systemctl restart $service" </dev/null
done <<-LIST
	kubedns-nanny -drain=0s -drain=never NANNY
	kubedns-sidecar --drain=0s --drain=never SIDECAR
LIST

say "the ConfigMap's keys: a mistake is reported with file and line, and the old value stays"
in_box 'printf "10.0.0.5 printer.example\n10.0.0.300 scanner.example\n" >/etc/kubedns/config/hosts'
await "the mistake is not in the journal" "journalctl -u kubedns -o cat | grep -q '/etc/kubedns/config: hosts: line 2: .*10.0.0.300'"
say "  $(in_box "journalctl -u kubedns -o cat | grep 'hosts: line 2' | head -1")"
in_box 'printf "10.0.0.5 printer.example\n" >/etc/kubedns/config/hosts'
answers "printer.example" 10.0.0.5
in_box 'rm /etc/kubedns/config/hosts'

say "upgrade: edited files stay, and kubedns answers"
in_box 'mkdir /new; cd /new; for d in /debs/*.deb; do n=$(basename $d); dpkg-deb -R $d x && sed -i "s/^Version: .*/&+next/; s/(= \([^)]*\))/(= \1+next)/" x/DEBIAN/control && dpkg-deb -b x $n >/dev/null && rm -r x; done'
apt "install -y --no-install-recommends /new/*.deb"
expect "the version" "dpkg-query -W kubedns" "+next"
expect "the edited conffile" "cat /etc/default/kubedns" "--resolver=127.0.0.1:253"
answers "web.default.svc.cluster.local" 10.9.8.7
answers "outside.example" 192.0.2.7

say "after remove, the configuration stays; after purge, nothing of the packages stays"
in_box "rm /etc/kubedns/objects/web.yaml"
apt "remove -y kubedns kubedns-nanny kubedns-sidecar"
in_box '! pgrep "kubedns|dnsmasq" && test -e /etc/default/kubedns' || die "after remove"
apt "purge -y kubedns kubedns-nanny kubedns-sidecar"
in_box '! ls -d /etc/kubedns /etc/default/kubedns* /lib/systemd/system/kubedns* /etc/systemd/system/*/kubedns* /run/kubedns* /var/lib/systemd/deb-systemd-helper-enabled/kubedns* 2>/dev/null' \
	|| die "after purge"
say "passed"
