#include "kubedns/modules/dnstap/dnstap_frame.h"

#include <assert.h>
#include <string.h>

#include "kubedns/modules/dnstap/dnstap.pb-c.h"
#include "lib/clock.h"

enum {
	FIELD_MESSAGE = 14 << 3 | 2, /* Dnstap.message, with a length */
	FIELD_TYPE_LEN = 2,          /* bytes of Dnstap.type, the last field of a frame */
	USUAL_WIDTH = 2, /* bytes of the length field of a message of 128 to 16,383 bytes */
};

/* Wraps data for protobuf-c. The library only reads the data, but its type has no const. */
static ProtobufCBinaryData
bytes(const void *data, size_t len)
{
	union {
		const void *in;
		void *out;
	} pointer = { data };

	return (ProtobufCBinaryData){ len, pointer.out };
}

/* Sets the addresses of the message. Only the address of the other end is known. */
static void
set_peer(Dnstap__Message *to, const struct server *peer, bool from_client)
{
	ProtobufCBinaryData address = bytes(peer->addr.bytes, addr_len(&peer->addr));

	to->has_socket_family = true;
	to->socket_family = peer->addr.family == AF_INET ? DNSTAP__MESSAGE__SOCKET_FAMILY__INET
							 : DNSTAP__MESSAGE__SOCKET_FAMILY__INET6;
	to->has_query_address = to->has_query_port = from_client;
	to->has_response_address = to->has_response_port = !from_client;
	if (from_client) {
		to->query_address = address;
		to->query_port = peer->port;
	} else {
		to->response_address = address;
		to->response_port = peer->port;
	}
}

static void
set_query_time(Dnstap__Message *to, int64_t at_ns)
{
	to->has_query_time_sec = to->has_query_time_nsec = true;
	to->query_time_sec = (uint64_t)(at_ns / NS_PER_S);
	to->query_time_nsec = (uint32_t)(at_ns % NS_PER_S);
}

static void
set_response_time(Dnstap__Message *to, int64_t at_ns)
{
	to->has_response_time_sec = to->has_response_time_nsec = true;
	to->response_time_sec = (uint64_t)(at_ns / NS_PER_S);
	to->response_time_nsec = (uint32_t)(at_ns % NS_PER_S);
}

void
dnstap_sender_init(struct dnstap_sender *sender, const char *identity, const char *version)
{
	Dnstap__Dnstap frame = DNSTAP__DNSTAP__INIT;

	frame.type = DNSTAP__DNSTAP__TYPE__MESSAGE;
	frame.has_identity = frame.has_version = true;
	frame.identity = bytes(identity, strnlen(identity, DNSTAP_NAME_MAX));
	frame.version = bytes(version, strnlen(version, DNSTAP_NAME_MAX));
	sender->wall_ns = 0;
	sender->frame_len = dnstap__dnstap__pack(&frame, sender->frame);
	assert(sender->frame_len <= sizeof sender->frame);
}

/* Returns the number of bytes of `n` in protobuf's encoding of variable length (varint). Each byte has 7 bits of `n`. */
static size_t
varint_width(size_t n)
{
	size_t width = 1;

	for (; n >= 0x80; n >>= 7)
		width++;
	return width;
}

static void
put_varint(uint8_t *out, size_t n)
{
	for (; n >= 0x80; n >>= 7)
		*out++ = (uint8_t)(n | 0x80);
	*out = (uint8_t)n;
}

/* Packs a message and writes it into a copy of the sender's frame, before the last field. The library packs only the message for each
 * frame. Packing the other fields too would take about twice as long. */
static size_t
put_frame(const struct dnstap_sender *sender, const Dnstap__Message *said, uint8_t *out)
{
	size_t before = sender->frame_len - FIELD_TYPE_LEN;

	memcpy(out, sender->frame, before);
	out += before;
	*out++ = FIELD_MESSAGE;
	size_t len = dnstap__message__pack(said, out + USUAL_WIDTH);
	size_t width = varint_width(len);
	if (width != USUAL_WIDTH)
		memmove(out + width, out + USUAL_WIDTH, len);
	put_varint(out, len);
	memcpy(out + width + len, sender->frame + before, FIELD_TYPE_LEN);
	return before + 1 + width + len + FIELD_TYPE_LEN;
}

size_t
dnstap_frame(const struct dnstap_sender *sender, const struct dnstap_head *head,
    const uint8_t *message, uint8_t *out)
{
	Dnstap__Message said = DNSTAP__MESSAGE__INIT;
	bool is_response =
	    head->kind == DNSTAP_CLIENT_RESPONSE || head->kind == DNSTAP_FORWARDER_RESPONSE;

	said.type = (Dnstap__Message__Type)head->kind;
	said.has_socket_protocol = true;
	said.socket_protocol = head->tcp ? DNSTAP__MESSAGE__SOCKET_PROTOCOL__TCP
					 : DNSTAP__MESSAGE__SOCKET_PROTOCOL__UDP;
	set_peer(&said, &head->peer,
	    head->kind == DNSTAP_CLIENT_QUERY || head->kind == DNSTAP_CLIENT_RESPONSE);
	set_query_time(&said, head->query_ns + sender->wall_ns);
	if (is_response) {
		set_response_time(&said, head->response_ns + sender->wall_ns);
		said.has_response_message = true;
		said.response_message = bytes(message, head->len);
	} else {
		said.has_query_message = true;
		said.query_message = bytes(message, head->len);
	}
	return put_frame(sender, &said, out);
}
