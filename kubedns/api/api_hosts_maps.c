/* ConfigMaps of --hosts-namespaces: a watch for each namespace, which needs no right in another. */
#include <stdlib.h>

#include "kubedns/api/resource_watch.h"
#include "lib/xalloc.h"

#define HOSTS_LABEL "kubedns/hosts=true"

void
api_hosts_maps_choose(struct api_source *w, const char *const *namespaces)
{
	for (; namespaces != NULL && *namespaces != NULL; namespaces++) {
		struct resource_watch *s = &w->streams[w->count++];
		resource_watch_init(s, w, API_COUNT);
		s->wanted = true;
		s->hosts_namespace = *namespaces;
		free(s->label);
		s->label = xasprintf("%s/%s", s->resource->name, *namespaces);
		resource_watch_select_namespace(s, *namespaces);
		resource_watch_select(s, "labelSelector", "", HOSTS_LABEL);
	}
}
