#include "kubedns/dnstap/dnstap_frame.h"

#include <assert.h>
#include <string.h>

#include "kubedns/dnstap/dnstap.pb-c.h"
#include "lib/clock.h"

/* Wrapped for protobuf-c, which reads only; its type has no const. */
static ProtobufCBinaryData
bytes(const void *data, size_t len)
{
	union {
		const void *in;
		void *out;
	} pointer = { data };

	return (ProtobufCBinaryData){ len, pointer.out };
}

/* Who asked whom: of the two ends only the other one than us is known. */
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

size_t
dnstap_frame(const struct dnstap_sender *sender, const struct dnstap_head *head,
    const uint8_t *message, uint8_t *out)
{
	Dnstap__Message said = DNSTAP__MESSAGE__INIT;
	Dnstap__Dnstap frame = DNSTAP__DNSTAP__INIT;
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
	frame.type = DNSTAP__DNSTAP__TYPE__MESSAGE;
	frame.message = &said;
	frame.has_identity = frame.has_version = true;
	frame.identity = bytes(sender->identity, strnlen(sender->identity, DNSTAP_NAME_MAX));
	frame.version = bytes(sender->version, strnlen(sender->version, DNSTAP_NAME_MAX));
	return dnstap__dnstap__pack(&frame, out);
}
