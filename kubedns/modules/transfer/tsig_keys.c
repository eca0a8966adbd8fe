#include "kubedns/modules/transfer/tsig_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/base64.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/xalloc.h"

static int
wrong(char why[TSIG_WHY_MAX], unsigned line, const char *word, const char *what)
{
	if (word == NULL)
		snprintf(why, TSIG_WHY_MAX, "line %u: %s", line, what);
	else
		snprintf(why, TSIG_WHY_MAX, "line %u: \"%.200s\": %s", line, word, what);
	return -EINVAL;
}

/* --- the words of a line --- */

static int
read_name(struct tsig_keys *keys, struct tsig_key *key, const char *word, unsigned line, char *why)
{
	if (dname_from_text(&key->name, word) < 0 || key->name.len < 2)
		return wrong(why, line, word, "not a name");
	dname_lower(key->name.wire, key->name.len);
	for (size_t i = 0; i < keys->count; i++)
		if (dname_equal(keys->items[i].key.name.wire, key->name.wire))
			return wrong(why, line, word, "an earlier key has this name");
	return 0;
}

static int
read_algorithm(struct tsig_key *key, const char *word, unsigned line, char *why)
{
	struct dname name;
	int algorithm = -1;

	if (dname_from_text(&name, word) == 0) {
		dname_lower(name.wire, name.len);
		algorithm = tsig_algorithm(&name);
	}
	if (algorithm < 0)
		return wrong(why, line, word,
		    "not a supported algorithm: hmac-sha256, hmac-sha384 or hmac-sha512");
	key->algorithm = (enum tsig_algorithm)algorithm;
	return 0;
}

/* Reads the secret. Error messages must not contain any part of it. */
static int
read_secret(struct tsig_key *key, const char *word, unsigned line, char *why)
{
	struct base64_decode_ctx base64;
	size_t len = TSIG_SECRET_MAX, chars = strlen(word);

	base64_decode_init(&base64);
	if (BASE64_DECODE_LENGTH(chars) > TSIG_SECRET_MAX)
		return wrong(why, line, NULL, "the secret has more than 256 bytes");
	if (base64_decode_update(&base64, &len, key->secret, chars, word) == 0 ||
	    base64_decode_final(&base64) == 0)
		return wrong(why, line, NULL, "the secret is not base64");
	if (len < TSIG_SECRET_MIN)
		return wrong(why, line, NULL,
		    "the secret has less than 16 bytes: use one of tsig-keygen, keymgr -t, or "
		    "openssl rand -base64 32");
	key->secret_len = (uint16_t)len;
	return 0;
}

/* --- the file --- */

static char *
next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " \t\r");

	if (*word == '\0')
		return NULL;
	*rest = word + strcspn(word, " \t\r");
	if (**rest != '\0')
		*(*rest)++ = '\0';
	return word;
}

static int
read_notify(struct tsig_keys *keys, char *rest, unsigned line, char *why)
{
	char *word;

	while ((word = next_word(&rest)) != NULL) {
		size_t *count = &keys->items[keys->count].notify_count;

		if (*count == TSIG_KEY_NOTIFY_MAX)
			return wrong(why, line, word, "a key has at most 16 addresses");
		if (addr_parse(word, &keys->items[keys->count].notify[(*count)++]) < 0)
			return wrong(
			    why, line, word, "not an address; NOTIFY to it is signed with the key");
	}
	return 0;
}

static int
read_line(struct tsig_keys *keys, char *text, unsigned line, char *why)
{
	char *rest = text, *name, *algorithm, *secret;

	text[strcspn(text, "#")] = '\0';
	if ((name = next_word(&rest)) == NULL)
		return 0;
	if (keys->count == TSIG_KEYS_MAX)
		return wrong(why, line, name, "at most 16 keys");
	struct tsig_key *key = &keys->items[keys->count].key;
	if ((algorithm = next_word(&rest)) == NULL || (secret = next_word(&rest)) == NULL)
		return wrong(why, line, NULL, "a name, an algorithm and a secret are needed");
	if (read_name(keys, key, name, line, why) < 0 ||
	    read_algorithm(key, algorithm, line, why) < 0 ||
	    read_secret(key, secret, line, why) < 0 || read_notify(keys, rest, line, why) < 0)
		return -EINVAL;
	keys->count++;
	return 0;
}

int
tsig_keys_parse(struct tsig_keys *keys, char *text, size_t len, char why[TSIG_WHY_MAX])
{
	unsigned line = 1;
	char *next;

	memset(keys, 0, sizeof *keys);
	if (memchr(text, '\0', len) != NULL)
		return wrong(why, line, NULL, "a byte of value 0: not a text file");
	text[len] = '\0';
	for (char *at = text; at != NULL; at = next, line++) {
		next = strchr(at, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (read_line(keys, at, line, why) < 0)
			return -EINVAL;
	}
	if (keys->count == 0)
		return wrong(why, line - 1, NULL, "no key in the file");
	return 0;
}

/* Reads the file. Returns the number of bytes, or -errno. */
static ssize_t
read_file(const char *path, char text[TSIG_FILE_MAX + 1])
{
	/* O_NONBLOCK, because a pipe in place of the file must not block us. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = 0, len = 0;

	if (fd < 0)
		return -errno;
	while (len <= TSIG_FILE_MAX &&
	       (n = read(fd, text + len, (size_t)(TSIG_FILE_MAX + 1 - len))) > 0)
		len += n;
	int error = errno;
	close(fd);
	return n < 0 ? -error : len > TSIG_FILE_MAX ? -EFBIG : len;
}

int
tsig_keys_read(struct tsig_keys *keys, const char *path, char why[TSIG_WHY_MAX])
{
	char text[TSIG_FILE_MAX + 1];
	ssize_t len = read_file(path, text);
	int rc = (int)len;

	if (len >= 0)
		rc = tsig_keys_parse(keys, text, (size_t)len, why);
	else
		snprintf(why, TSIG_WHY_MAX, "%s",
		    len == -EFBIG ? "more than 16 KB: not a key file" : strerror((int)-len));
	explicit_bzero(text, sizeof text);
	return rc;
}

/* --- searching for a key --- */

const struct tsig_key *
tsig_keys_find(const struct tsig_keys *keys, const struct tsig *tsig)
{
	for (size_t i = 0; i < keys->count; i++)
		if (tsig_is_of(tsig, &keys->items[i].key))
			return &keys->items[i].key;
	return NULL;
}

const struct tsig_key *
tsig_keys_for_notify(const struct tsig_keys *keys, const struct addr *to)
{
	const struct tsig_key *any = NULL;

	for (size_t i = 0; i < keys->count; i++) {
		if (any == NULL && keys->items[i].notify_count == 0)
			any = &keys->items[i].key;
		for (size_t n = 0; n < keys->items[i].notify_count; n++)
			if (addr_equal(&keys->items[i].notify[n], to))
				return &keys->items[i].key;
	}
	return any;
}

/* --- keys that can be replaced --- */

struct tsig_ring {
	pthread_mutex_t lock;
	struct tsig_keys keys;
};

struct tsig_ring *
tsig_ring_new(const struct tsig_keys *keys)
{
	struct tsig_ring *ring = xcalloc(1, sizeof *ring);

	pthread_mutex_init(&ring->lock, NULL);
	ring->keys = *keys;
	return ring;
}

static bool
same_key(const struct tsig_key *a, const struct tsig_key *b)
{
	return dname_equal(a->name.wire, b->name.wire) && a->algorithm == b->algorithm &&
	       a->secret_len == b->secret_len && memcmp(a->secret, b->secret, a->secret_len) == 0;
}

static bool
same_keys(const struct tsig_keys *a, const struct tsig_keys *b)
{
	bool same = a->count == b->count;

	for (size_t i = 0; i < a->count && same; i++) {
		same = same_key(&a->items[i].key, &b->items[i].key) &&
		       a->items[i].notify_count == b->items[i].notify_count;
		for (size_t n = 0; same && n < a->items[i].notify_count; n++)
			same = addr_equal(&a->items[i].notify[n], &b->items[i].notify[n]);
	}
	return same;
}

bool
tsig_ring_set(struct tsig_ring *ring, const struct tsig_keys *keys)
{
	pthread_mutex_lock(&ring->lock);
	bool changed = !same_keys(&ring->keys, keys);
	ring->keys = *keys;
	pthread_mutex_unlock(&ring->lock);
	return changed;
}

size_t
tsig_ring_count(struct tsig_ring *ring)
{
	pthread_mutex_lock(&ring->lock);
	size_t count = ring->keys.count;
	pthread_mutex_unlock(&ring->lock);
	return count;
}

static bool
copy(const struct tsig_key *found, struct tsig_key *key)
{
	if (found != NULL)
		*key = *found;
	return found != NULL;
}

bool
tsig_ring_find(struct tsig_ring *ring, const struct tsig *tsig, struct tsig_key *key)
{
	pthread_mutex_lock(&ring->lock);
	bool found = copy(tsig_keys_find(&ring->keys, tsig), key);
	pthread_mutex_unlock(&ring->lock);
	return found;
}

bool
tsig_ring_for_notify(struct tsig_ring *ring, const struct addr *to, struct tsig_key *key)
{
	pthread_mutex_lock(&ring->lock);
	bool found = copy(tsig_keys_for_notify(&ring->keys, to), key);
	pthread_mutex_unlock(&ring->lock);
	return found;
}

void
tsig_ring_free(struct tsig_ring *ring)
{
	if (ring == NULL)
		return;
	pthread_mutex_destroy(&ring->lock);
	explicit_bzero(&ring->keys, sizeof ring->keys);
	free(ring);
}
