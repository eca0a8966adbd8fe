/* Host names, addresses and servers as an operator writes them. */
#include <errno.h>
#include <string.h>

#include "lib/conf.h"

int
conf_name_parse(const char *text, char name[CONF_HOST_MAX], const char **why)
{
	size_t len = strlen(text);
	if (len > 0 && text[len - 1] == '.')
		len--;
	*why = "not a domain name";
	if (len == 0) {
		*why = "the root";
		return -EINVAL;
	}
	if (len >= CONF_HOST_MAX) {
		*why = "longer than 253 bytes";
		return -EINVAL;
	}
	size_t label = 0;
	for (size_t i = 0; i <= len; i++) {
		char c = i == len ? '.' : text[i];
		if (c == '.') {
			size_t label_len = i - label;
			if (label_len == 0 || label_len > 63 || text[label] == '-' ||
			    text[i - 1] == '-')
				return -EINVAL;
			label = i + 1;
		} else if (c >= 'A' && c <= 'Z')
			c = (char)(c | 0x20);
		else if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
			return -EINVAL;
		name[i] = c;
	}
	name[len] = '\0';
	return 0;
}

bool
conf_name_under(const char *name, const char *zone)
{
	size_t name_len = strlen(name), zone_len = strlen(zone);
	if (name_len < zone_len || strcasecmp(name + name_len - zone_len, zone) != 0)
		return false;
	return zone_len == 0 || name_len == zone_len || name[name_len - zone_len - 1] == '.';
}

bool
conf_addr_useless(const struct addr *addr, const char **why)
{
	static const uint8_t zero[16], mapped[12] = { [10] = 0xff, 0xff };
	const uint8_t *b = addr->bytes;
	bool v4 = addr->family == AF_INET;
	if (memcmp(b, zero, addr_len(addr)) == 0)
		*why = "the unspecified address";
	else if (v4 && b[0] == 0)
		*why = "not a host's address";
	else if (v4 ? b[0] >= 224 && b[0] < 240 : b[0] == 0xff)
		*why = "a multicast address";
	else if (v4 && b[0] >= 240)
		*why = "a reserved address";
	else if (!v4 && memcmp(b, mapped, 12) == 0)
		*why = "an IPv4 address in IPv6 form: write it as IPv4";
	else
		return false;
	return true;
}

/* Whether `text` could only have been meant as an address: its last label is a number, or it has a
 * colon too many. */
static bool
meant_as_address(const char *text)
{
	if (strchr(text, '[') || strchr(text, ']') || strchr(text, '#') || strstr(text, "://"))
		return true;
	const char *colon = strchr(text, ':');
	if (colon && strchr(colon + 1, ':'))
		return true;
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	if (len > 0 && text[len - 1] == '.')
		len--;
	size_t digits = 0;
	while (digits < len && text[len - 1 - digits] >= '0' && text[len - 1 - digits] <= '9')
		digits++;
	return digits > 0 && (digits == len || text[len - 1 - digits] == '.');
}

static int
parse_port(const char *text, uint16_t *port)
{
	unsigned long n = 0;
	size_t len = strlen(text);
	if (len == 0 || len > 5 || text[0] == '0')
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		n = n * 10 + (unsigned long)(text[i] - '0');
	}
	if (n > 65535)
		return -EINVAL;
	*port = (uint16_t)n;
	return 0;
}

int
conf_server_parse(const char *text, struct conf_server *server, const char **why)
{
	*server = (struct conf_server){ .host = "" };
	if (server_parse(text, 53, &server->server, why) == 0)
		return conf_addr_useless(&server->server.addr, why) ? -EINVAL : 0;
	if (meant_as_address(text))
		return -EINVAL; /* with server_parse's reason */
	char host[CONF_HOST_MAX + 1];
	size_t len = strcspn(text, ":");
	server->server = (struct server){ .port = 53 };
	*why = "port out of range, 1 to 65535";
	if (text[len] == ':' && parse_port(text + len + 1, &server->server.port) < 0)
		return -EINVAL;
	*why = "not an address or host name";
	if (len == 0 || len >= sizeof host)
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	const char *ignored;
	return conf_name_parse(host, server->host, &ignored);
}
