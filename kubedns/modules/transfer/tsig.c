#include "kubedns/modules/transfer/tsig.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>

#include "lib/wire.h"

enum {
	TIME_AND_FUDGE = 8,
	VARIABLES_MAX = 2 * DNAME_MAX + 2 + 4 + TIME_AND_FUDGE + 4 + 6,
	OTHER_MAX = 6, /* bytes of a time in the field Other Data */
};

/* --- the HMAC functions of nettle, by algorithm --- */

union hmac {
	struct hmac_sha256_ctx sha256;
	struct hmac_sha512_ctx sha512; /* used for SHA-384 too */
};

static const struct {
	const char *text;
	uint8_t wire[14]; /* the names of all three algorithms have the same length */
	uint16_t mac_len;
} algorithms[TSIG_ALGORITHMS] = {
	[TSIG_SHA256] = { "hmac-sha256", "\13hmac-sha256", 32 },
	[TSIG_SHA384] = { "hmac-sha384", "\13hmac-sha384", 48 },
	[TSIG_SHA512] = { "hmac-sha512", "\13hmac-sha512", 64 },
};

enum { ALGORITHM_LEN = 13 };

static void
hmac_begin(union hmac *hmac, const struct tsig_key *key)
{
	if (key->algorithm == TSIG_SHA256)
		hmac_sha256_set_key(&hmac->sha256, key->secret_len, key->secret);
	else if (key->algorithm == TSIG_SHA384)
		hmac_sha384_set_key(&hmac->sha512, key->secret_len, key->secret);
	else
		hmac_sha512_set_key(&hmac->sha512, key->secret_len, key->secret);
}

static void
hmac_add(union hmac *hmac, const struct tsig_key *key, const void *bytes, size_t len)
{
	if (key->algorithm == TSIG_SHA256)
		hmac_sha256_update(&hmac->sha256, len, bytes);
	else
		hmac_sha512_update(&hmac->sha512, len, bytes);
}

static void
hmac_end(union hmac *hmac, const struct tsig_key *key, uint8_t mac[TSIG_MAC_MAX])
{
	if (key->algorithm == TSIG_SHA256)
		hmac_sha256_digest(&hmac->sha256, algorithms[TSIG_SHA256].mac_len, mac);
	else if (key->algorithm == TSIG_SHA384)
		hmac_sha384_digest(&hmac->sha512, algorithms[TSIG_SHA384].mac_len, mac);
	else
		hmac_sha512_digest(&hmac->sha512, algorithms[TSIG_SHA512].mac_len, mac);
	explicit_bzero(hmac, sizeof *hmac); /* the state of the HMAC is derived from the secret */
}

int
tsig_algorithm(const struct dname *name)
{
	for (int i = 0; i < TSIG_ALGORITHMS; i++)
		if (name->len == ALGORITHM_LEN &&
		    memcmp(name->wire, algorithms[i].wire, ALGORITHM_LEN) == 0)
			return i;
	return -1;
}

const char *
tsig_algorithm_text(enum tsig_algorithm algorithm)
{
	return algorithms[algorithm].text;
}

const char *
tsig_error_name(unsigned error)
{
	switch (error) {
	case TSIG_NOERROR:
		return "without an error";
	case TSIG_BADSIG:
		return "BADSIG";
	case TSIG_BADKEY:
		return "BADKEY";
	case TSIG_BADTIME:
		return "BADTIME";
	case TSIG_BADTRUNC:
		return "BADTRUNC";
	default:
		return "with an error";
	}
}

bool
tsig_is_of(const struct tsig *tsig, const struct tsig_key *key)
{
	return tsig->key.len == key->name.len &&
	       memcmp(tsig->key.wire, key->name.wire, key->name.len) == 0 &&
	       tsig_algorithm(&tsig->algorithm) == (int)key->algorithm;
}

/* --- reading a TSIG --- */

static uint64_t
get48(const uint8_t *p)
{
	return (uint64_t)wire_get16(p) << 32 | wire_get32(p + 2);
}

static void
put48(struct writer *w, uint64_t v)
{
	writer_put16(w, (unsigned)(v >> 32 & 0xffff));
	writer_put32(w, (uint32_t)v);
}

static bool
read_rdata(const uint8_t *wire, const struct record *record, struct tsig *tsig)
{
	size_t at = (size_t)(record->rdata - wire);

	if (record->class != CLASS_ANY || record->ttl_s != 0)
		return false;
	tsig->offset = record->offset;
	tsig->key = record->owner;
	if (wire_read_name(wire, record->end, &at, &tsig->algorithm) < 0 || record->end - at < 10)
		return false;
	dname_lower(tsig->key.wire, tsig->key.len);
	dname_lower(tsig->algorithm.wire, tsig->algorithm.len);
	tsig->time_s = get48(wire + at);
	tsig->fudge_s = wire_get16(wire + at + 6);
	tsig->mac_len = wire_get16(wire + at + 8);
	at += 10;
	if (record->end - at < tsig->mac_len + 6u)
		return false;
	tsig->mac = wire + at;
	at += tsig->mac_len;
	tsig->original_id = wire_get16(wire + at);
	tsig->error = wire_get16(wire + at + 2);
	tsig->other_len = wire_get16(wire + at + 4);
	at += 6;
	tsig->other = wire + at;
	return record->end - at == tsig->other_len;
}

/* Returns the offset after the question section, or 0 if there is no valid question section. Does not check the names in it. */
static size_t
behind_questions(const uint8_t *wire, size_t len)
{
	size_t at = DNS_HEADER;
	unsigned questions = wire_get16(wire + 4);
	struct dname name;

	if (questions > 1)
		return 0;
	if (questions == 1) {
		if (wire_read_name(wire, len, &at, &name) < 0 || len - at < 4)
			return 0;
		at += 4;
	}
	return at;
}

enum tsig_read
tsig_read(const uint8_t *wire, size_t len, struct tsig *tsig)
{
	struct record record;

	if (len < DNS_HEADER)
		return TSIG_MALFORMED;
	unsigned additional = wire_get16(wire + 10);
	unsigned count = wire_get16(wire + 6) + wire_get16(wire + 8) + additional;
	size_t at = behind_questions(wire, len);
	if (at == 0 || count > TSIG_RECORDS_MAX)
		return TSIG_MALFORMED;
	for (unsigned i = 0; i < count; i++) {
		if (wire_read_record(wire, len, &at, &record) < 0)
			return TSIG_MALFORMED;
		if (record.type != TYPE_TSIG)
			continue;
		bool last = i + 1 == count && additional > 0 && at == len;
		return last && read_rdata(wire, &record, tsig) ? TSIG_FOUND : TSIG_MALFORMED;
	}
	return at == len ? TSIG_NONE : TSIG_MALFORMED;
}

/* --- the MAC --- */

/* The fields of the TSIG that are included in the MAC (RFC 8945 section 4.3.3). */
struct variables {
	uint64_t time_s;
	uint16_t fudge_s, error;
	uint16_t other_len;
	const uint8_t *other;
};

/* Computes the MAC of `message` without its TSIG. `additional` is the number of additional records without the TSIG, because the
 * header's count may already include the TSIG. */
static void
make_mac(const struct tsig_chain *chain, const uint8_t *message, size_t len, uint16_t id,
    unsigned additional, const struct variables *v, uint8_t mac[TSIG_MAC_MAX])
{
	const struct tsig_key *key = &chain->key;
	uint8_t head[2 + DNS_HEADER], variables[VARIABLES_MAX];
	struct writer w = { .buf = variables, .max = sizeof variables };
	union hmac hmac;

	hmac_begin(&hmac, key);
	if (chain->mac_len > 0) {
		wire_put16(head, chain->mac_len);
		hmac_add(&hmac, key, head, 2);
		hmac_add(&hmac, key, chain->mac, chain->mac_len);
	}
	memcpy(head, message, DNS_HEADER);
	wire_put16(head, id);
	wire_put16(head + 10, additional);
	hmac_add(&hmac, key, head, DNS_HEADER);
	hmac_add(&hmac, key, message + DNS_HEADER, len - DNS_HEADER);
	if (!chain->later) {
		writer_put(&w, key->name.wire, key->name.len);
		writer_put16(&w, CLASS_ANY);
		writer_put32(&w, 0);
		writer_put(&w, algorithms[key->algorithm].wire, ALGORITHM_LEN);
	}
	put48(&w, v->time_s);
	writer_put16(&w, v->fudge_s);
	if (!chain->later) {
		writer_put16(&w, v->error);
		writer_put16(&w, v->other_len);
	}
	hmac_add(&hmac, key, variables, w.len);
	if (!chain->later)
		hmac_add(&hmac, key, v->other, v->other_len);
	hmac_end(&hmac, key, mac);
}

static void
keep_mac(struct tsig_chain *chain, const uint8_t *mac)
{
	chain->mac_len = algorithms[chain->key.algorithm].mac_len;
	memcpy(chain->mac, mac, chain->mac_len);
}

enum tsig_error
tsig_verify(const uint8_t *wire, const struct tsig *tsig, struct tsig_chain *chain, int64_t now_s)
{
	const struct variables v = { tsig->time_s, tsig->fudge_s, tsig->error, tsig->other_len,
		tsig->other };
	unsigned whole = algorithms[chain->key.algorithm].mac_len;
	uint8_t mac[TSIG_MAC_MAX];

	/* If no policy could accept the MAC, the message is malformed (RFC 8945 section 5.2.2.1). */
	if (tsig->mac_len > whole || tsig->mac_len < 10 || tsig->mac_len < whole / 2)
		return TSIG_FORMERR;
	make_mac(chain, wire, tsig->offset, tsig->original_id, wire_get16(wire + 10) - 1u, &v, mac);
	if (memeql_sec(mac, tsig->mac, tsig->mac_len) == 0)
		return TSIG_BADSIG;
	if (tsig->mac_len < whole)
		return TSIG_BADTRUNC;
	keep_mac(chain, mac);
	int64_t off_s = now_s - (int64_t)tsig->time_s;
	int64_t fudge_s = tsig->fudge_s < TSIG_FUDGE_S ? tsig->fudge_s : TSIG_FUDGE_S;
	return (off_s < 0 ? -off_s : off_s) > fudge_s ? TSIG_BADTIME : TSIG_NOERROR;
}

/* --- writing a TSIG --- */

static size_t
put_record(uint8_t *wire, size_t len, size_t max, const struct dname *key,
    const struct dname *algorithm, const struct variables *v, const uint8_t *mac, size_t mac_len)
{
	struct writer w = { wire, len, max, false };

	writer_put(&w, key->wire, key->len);
	writer_put16(&w, TYPE_TSIG);
	writer_put16(&w, CLASS_ANY);
	writer_put32(&w, 0);
	writer_put16(&w, (unsigned)(algorithm->len + 10u + mac_len + 6u + v->other_len));
	writer_put(&w, algorithm->wire, algorithm->len);
	put48(&w, v->time_s);
	writer_put16(&w, v->fudge_s);
	writer_put16(&w, (unsigned)mac_len);
	writer_put(&w, mac, mac_len);
	writer_put16(&w, wire_get16(wire));
	writer_put16(&w, v->error);
	writer_put16(&w, v->other_len);
	writer_put(&w, v->other, v->other_len);
	if (w.overflow)
		return 0;
	wire_put16(wire + 10, wire_get16(wire + 10) + 1u);
	return w.len;
}

size_t
tsig_sign(uint8_t *wire, size_t len, size_t max, struct tsig_chain *chain, int64_t now_s,
    const struct tsig *bad_time)
{
	struct dname algorithm = { .len = ALGORITHM_LEN };
	uint8_t mac[TSIG_MAC_MAX], other[OTHER_MAX];
	struct variables v = { (uint64_t)now_s, TSIG_FUDGE_S, TSIG_NOERROR, 0, other };
	struct writer now = { .buf = other, .max = sizeof other };

	/* The reply is signed with the client's time, so the client accepts our time. */
	if (bad_time != NULL) {
		put48(&now, (uint64_t)now_s);
		v = (struct variables){ bad_time->time_s, bad_time->fudge_s, TSIG_BADTIME,
			sizeof other, other };
	}
	memcpy(algorithm.wire, algorithms[chain->key.algorithm].wire, ALGORITHM_LEN);
	make_mac(chain, wire, len, wire_get16(wire), wire_get16(wire + 10), &v, mac);
	size_t whole = put_record(wire, len, max, &chain->key.name, &algorithm, &v, mac,
	    algorithms[chain->key.algorithm].mac_len);
	if (whole > 0) {
		chain->later = chain->mac_len > 0;
		keep_mac(chain, mac);
	}
	return whole;
}

size_t
tsig_put_error(uint8_t *wire, size_t len, size_t max, const struct tsig *request,
    enum tsig_error error, int64_t now_s)
{
	const uint8_t none[1] = { 0 };
	const struct variables v = { (uint64_t)now_s, TSIG_FUDGE_S, (uint16_t)error, 0, none };

	return put_record(wire, len, max, &request->key, &request->algorithm, &v, none, 0);
}
