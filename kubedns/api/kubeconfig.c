#include "kubedns/api/kubeconfig.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/documents.h"
#include "lib/xalloc.h"

/* State shared by the functions below. */
struct reader {
	const char *path;
	struct kubeconfig *config;
	unsigned documents;
	char *why; /* the first complaint */
};

static void __attribute__((format(printf, 2, 3))) complain(struct reader *r, const char *fmt, ...)
{
	va_list args;

	if (r->why != NULL)
		return;
	va_start(args, fmt);
	if (vasprintf(&r->why, fmt, args) < 0)
		abort();
	va_end(args);
}

static int
sextet(char c)
{
	static const char alphabet[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(alphabet, c) : NULL;

	return at != NULL ? (int)(at - alphabet) : -1;
}

char *
kubeconfig_base64(const char *text, size_t *len)
{
	char *out = xmalloc(strlen(text) / 4 * 3 + 4);
	unsigned held = 0, bits = 0, digits = 0, padding = 0;
	size_t n = 0;

	for (; *text; text++) {
		if (strchr(" \t\r\n", *text) != NULL)
			continue;
		int value = *text == '=' ? 0 : sextet(*text);
		if (value < 0 || (padding && *text != '='))
			goto bad;
		padding += *text == '=';
		digits++;
		held = held << 6 | (unsigned)value;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			out[n++] = (char)(held >> bits);
		}
	}
	if (digits % 4 || padding > 2 || padding > n)
		goto bad;
	*len = n - padding;
	out[*len] = '\0';
	return out;
bad:
	free(out);
	return NULL;
}

static struct json_object *
json_member(struct json_object *json, const char *name)
{
	struct json_object *value = NULL;

	if (json_object_is_type(json, json_type_object))
		json_object_object_get_ex(json, name, &value);
	return value;
}

/* Returns a string member in new memory. Returns NULL if the member is missing, null or empty. */
static char *
string_member(struct reader *r, struct json_object *json, const char *name)
{
	struct json_object *value = json_member(json, name);

	if (value == NULL)
		return NULL;
	if (!json_object_is_type(value, json_type_string)) {
		complain(r, "%s: not a string", name);
		return NULL;
	}
	const char *s = json_object_get_string(value);
	if (strlen(s) != (size_t)json_object_get_string_len(value))
		complain(r, "%s: contains a NUL", name);
	return *s ? xstrdup(s) : NULL;
}

static char *
path_beside(const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');

	if (*path == '/' || slash == NULL)
		return xstrdup(path);
	return xasprintf("%.*s/%s", (int)(slash - file), file, path);
}

static char *
path_text(struct reader *r, struct json_object *json, const char *name)
{
	char *written = string_member(r, json, name);
	char *path = written != NULL ? path_beside(r->path, written) : NULL;

	free(written);
	return path;
}

/* Reads the member `name`-data, which is content. If it is missing, reads the member `name`, which
 * is a path. */
static void
read_file(
    struct reader *r, struct json_object *json, const char *name, struct kubeconfig_file *file)
{
	char *key = xasprintf("%s-data", name);
	char *encoded = string_member(r, json, key);

	if (encoded != NULL) {
		file->data = kubeconfig_base64(encoded, &file->len);
		if (file->data == NULL)
			complain(r, "%s: not base64", key);
		/* The content may be a private key. */
		explicit_bzero(encoded, strlen(encoded));
	} else {
		file->path = path_text(r, json, name);
	}
	free(encoded);
	free(key);
}

/* Finds the entry named `name` in `list` and returns its member `what`. Complains and returns NULL
 * if it is missing. */
static struct json_object *
named_entry(struct reader *r, struct json_object *config, const char *list, const char *what,
    const char *name)
{
	struct json_object *items = json_member(config, list);
	size_t count =
	    json_object_is_type(items, json_type_array) ? json_object_array_length(items) : 0;

	for (size_t i = 0; i < count; i++) {
		struct json_object *item = json_object_array_get_idx(items, i),
				   *own = json_member(item, "name");

		if (!json_object_is_type(own, json_type_string) ||
		    strcmp(json_object_get_string(own), name) != 0)
			continue;
		struct json_object *value = json_member(item, what);
		if (!json_object_is_type(value, json_type_object))
			complain(r, "%s \"%s\": has no %s", list, name, what);
		return value;
	}
	complain(r, "%s \"%s\": not in the file", what, name);
	return NULL;
}

static void
read_cluster(struct reader *r, struct json_object *cluster)
{
	struct kubeconfig *c = r->config;
	struct json_object *insecure = json_member(cluster, "insecure-skip-tls-verify");

	c->server = string_member(r, cluster, "server");
	if (c->server == NULL)
		complain(r, "cluster: server is missing");
	c->tls_server_name = string_member(r, cluster, "tls-server-name");
	c->proxy_url = string_member(r, cluster, "proxy-url");
	if (insecure != NULL && !json_object_is_type(insecure, json_type_boolean))
		complain(r, "insecure-skip-tls-verify: not a boolean");
	c->insecure =
	    json_object_is_type(insecure, json_type_boolean) && json_object_get_boolean(insecure);
	read_file(r, cluster, "certificate-authority", &c->ca);
	if (c->insecure && (c->ca.data != NULL || c->ca.path != NULL))
		complain(
		    r, "certificate-authority and insecure-skip-tls-verify exclude each other");
}

static void
read_user(struct reader *r, struct json_object *user)
{
	static const char *const refused[] = { "exec", "auth-provider", "username", "password" };
	static const char *const reasons[] = {
		"exec plugins are not supported; use a token, a tokenFile or a client certificate",
		"auth providers are not supported; use a token, a tokenFile or a client "
		"certificate",
		"the API server no longer takes passwords; use a token, a tokenFile or a client "
		"certificate",
		"the API server no longer takes passwords; use a token, a tokenFile or a client "
		"certificate",
	};
	struct kubeconfig *c = r->config;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		if (json_member(user, refused[i]) != NULL)
			complain(r, "user: %s: %s", refused[i], reasons[i]);
	}
	c->token = string_member(r, user, "token");
	c->token_file = path_text(r, user, "tokenFile");
	read_file(r, user, "client-certificate", &c->cert);
	read_file(r, user, "client-key", &c->key);
	if ((c->cert.data != NULL || c->cert.path != NULL) !=
	    (c->key.data != NULL || c->key.path != NULL))
		complain(r, "user: client-certificate and client-key need each other");
}

/* The sink of the document reader. The file must contain one document. */
static void
read_config(void *arg, struct json_object *json, const char *kind_hint, unsigned line)
{
	struct reader *r = arg;

	(void)kind_hint;
	(void)line;
	if (r->documents++)
		return;
	char *current = string_member(r, json, "current-context");
	if (current == NULL) {
		complain(r, "current-context is missing: set one with kubectl config use-context");
		return;
	}
	r->config->context = current;
	struct json_object *context = named_entry(r, json, "contexts", "context", current);
	char *cluster = string_member(r, context, "cluster"),
	     *user = string_member(r, context, "user");
	if (context != NULL && cluster == NULL)
		complain(r, "context \"%s\": has no cluster", current);
	if (cluster != NULL)
		read_cluster(r, named_entry(r, json, "clusters", "cluster", cluster));
	if (user != NULL)
		read_user(r, named_entry(r, json, "users", "user", user));
	free(cluster);
	free(user);
}

int
kubeconfig_read(FILE *in, const char *path, struct kubeconfig *config, char **why)
{
	struct reader r = { .path = path, .config = config };
	struct documents_error error = { 0 };

	*config = (struct kubeconfig){ 0 };
	if (documents_read(in, DOCUMENTS_YAML, read_config, &r, &error) != 0) {
		free(r.why);
		r.why = xasprintf("line %u: %s", error.line, error.reason);
	} else if (r.documents == 0) {
		complain(&r, "is empty");
	}
	*why = r.why;
	return r.why != NULL ? -EINVAL : 0;
}

static void
file_free(struct kubeconfig_file *file)
{
	if (file->data != NULL)
		explicit_bzero(file->data, file->len);
	free(file->data);
	free(file->path);
}

void
kubeconfig_free(struct kubeconfig *c)
{
	free(c->context);
	free(c->server);
	free(c->tls_server_name);
	free(c->proxy_url);
	file_free(&c->ca);
	file_free(&c->cert);
	file_free(&c->key);
	free(c->token);
	free(c->token_file);
	*c = (struct kubeconfig){ 0 };
}
