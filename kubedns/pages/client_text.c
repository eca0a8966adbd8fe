#include "kubedns/pages/client_text.h"

#include <stdio.h>

#include "kubedns/cluster/store.h"

/* Kubernetes allows none of these names a character that JSON would escape, and object.c reads none. */
static void
as_members(const struct store_pod *pod, char text[CLIENT_TEXT_MAX])
{
	int len = snprintf(text, CLIENT_TEXT_MAX, ",\"namespace\":\"%s\"", pod->namespace);

	if (pod->name == NULL)
		return;
	len += snprintf(text + len, CLIENT_TEXT_MAX - (size_t)len, ",\"pod\":\"%s\"", pod->name);
	if (*pod->node != '\0')
		snprintf(text + len, CLIENT_TEXT_MAX - (size_t)len, ",\"node\":\"%s\"", pod->node);
}

void
client_text(
    const struct store *store, const struct addr *addr, bool json, char text[CLIENT_TEXT_MAX])
{
	struct store_pod pod;

	*text = '\0';
	if (!store_find_pod(store, addr, &pod))
		return;
	if (json)
		as_members(&pod, text);
	else if (pod.name == NULL)
		snprintf(text, CLIENT_TEXT_MAX, " namespace %s", pod.namespace);
	else
		snprintf(text, CLIENT_TEXT_MAX, " pod %s/%s%s%s", pod.namespace, pod.name,
		    *pod.node == '\0' ? "" : " on ", pod.node);
}
