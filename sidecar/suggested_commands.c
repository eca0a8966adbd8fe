#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sidecar/suggested_commands.h"

/* Whether systemd opened the standard error of this process. A shell under a user's systemd also has the variable JOURNAL_STREAM, but the
 * variable names another file. */
static bool
is_unit(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char own[64];
	struct stat st;

	if (stream == NULL || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(own, sizeof own, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(stream, own) == 0;
}

enum surroundings
surroundings_find(void)
{
	const char *api = getenv("KUBERNETES_SERVICE_HOST");

	if (api != NULL && api[0] != '\0')
		return SURROUNDINGS_POD;
	return is_unit() ? SURROUNDINGS_SYSTEMD : SURROUNDINGS_PLAIN;
}

#define IN_PODS(verb, rest) ("kubectl -n kube-system " verb " -l k8s-app=kube-dns " rest)

const char *
surroundings_command(enum surroundings where, enum command command)
{
	static const char *const commands[SURROUNDINGS_COUNT][COMMAND_COUNT] = {
		[SURROUNDINGS_POD] = {
		    [COMMAND_LOGS_KUBEDNS] = IN_PODS("logs", "-c kubedns --tail=50"),
		    [COMMAND_LOGS_DNSMASQ] = IN_PODS("logs", "-c dnsmasq --tail=50"),
		    [COMMAND_USAGE] = IN_PODS("top pods", "--containers"),
		    [COMMAND_RUNNING] = IN_PODS("get pods", "-o wide"),
		    [COMMAND_CONFIG_SHOW] = "kubectl -n kube-system get configmap kube-dns -o yaml",
		    [COMMAND_CONFIG_EDIT] = "kubectl -n kube-system edit configmap kube-dns",
		    [COMMAND_SERVICES] = "kubectl get services -A",
		    [COMMAND_MANIFESTS] = IN_PODS("logs", "-c kubedns | grep manifest"),
		},
		[SURROUNDINGS_SYSTEMD] = {
		    [COMMAND_LOGS_KUBEDNS] = "journalctl -u kubedns -n 50",
		    [COMMAND_LOGS_DNSMASQ] = "journalctl -u kubedns-nanny -n 50",
		    [COMMAND_USAGE] = "systemctl status kubedns kubedns-nanny kubedns-sidecar",
		    [COMMAND_RUNNING] = "systemctl status kubedns kubedns-nanny kubedns-sidecar",
		    [COMMAND_CONFIG_SHOW] = "head /etc/kubedns/config/*",
		    [COMMAND_CONFIG_EDIT] = "head /etc/kubedns/config/*",
		    [COMMAND_SERVICES] = "ls /etc/kubedns/objects",
		    [COMMAND_MANIFESTS] = "journalctl -u kubedns -g manifest",
		},
	};
	const char *text = commands[where][command];

	return text != NULL ? text : "";
}
