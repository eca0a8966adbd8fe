/*
 * Where the events of the source end, API or manifests: objects go to the store and to the external
 * names, the ConfigMap to the settings.
 */
#include "kubedns/cluster/store.h"
#include "kubedns/config/external_setup.h"
#include "kubedns/config/hosts_maps.h"
#include "kubedns/kubedns.h"
#include "kubedns/config/settings.h"
#include "kubedns/config/wanted_namespaces.h"

/* The event_sink: all objects but the ConfigMap go to the store. */
void
event_sink_take(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	struct kubedns *k = arg;
	const char *zone, *region;

	wanted_namespaces_event(k->status.namespaces, type, object);
	if (kind != OBJECT_CONFIGMAP) {
		store_event(k->status.store, kind, type, object);
		external_names_event(k->status.external, kind, type, object);
	} else if (k->status.manifests == NULL && object != NULL) {
		if (settings_config_map(k->status.settings, type == EVENT_DELETED ? NULL : object))
			publish_settings(k);
	}
	if (kind == OBJECT_CONFIGMAP && k->status.manifests == NULL && type == EVENT_SYNCED)
		settings_config_map_listed(k->status.settings);
	if (kind == OBJECT_NODE) {
		store_location(k->status.store, &zone, &region);
		if (settings_location(k->status.settings, zone, region))
			publish_settings(k);
	}
}

void
hosts_sink_take(void *arg, const char *namespace, enum event_type type, const struct object *object)
{
	struct kubedns *k = arg;

	hosts_maps_event(k->status.hosts, namespace, type, object);
}
