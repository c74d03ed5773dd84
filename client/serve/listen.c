/* Listen: resolves an address and binds a socket to it. */
#include "client/serve/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"

#define PORT_DEFAULT "9640"
#define BACKLOG	     64

struct place {
	char host[LISTEN_NAME_BYTES], port[16];
};

/* A lone colon is that of a port; an IPv6 address without brackets has more. */
static int split(const char *text, struct place *ret)
{
	const char *colon = strrchr(text, ':');
	const char *host = text, *port = PORT_DEFAULT;
	size_t size = strlen(text);

	if (text[strspn(text, "0123456789")] == '\0') {
		host = "127.0.0.1";
		size = strlen(host);
		port = text;
	} else if (*text == '[') {
		host = text + 1;
		size = strcspn(host, "]");
		if (host[size] != ']' || (host[size + 1] && host[size + 1] != ':'))
			return -EINVAL;
		if (host[size + 1])
			port = host + size + 2;
	} else if (colon && colon == strchr(text, ':')) {
		size = (size_t)(colon - text);
		port = colon + 1;
	}
	if (!size || size >= sizeof(ret->host) || strlen(port) >= sizeof(ret->port) || !*port ||
	    port[strspn(port, "0123456789")] || atol(port) > UINT16_MAX)
		return -EINVAL;
	snprintf(ret->host, sizeof(ret->host), "%.*s", (int)size, host);
	snprintf(ret->port, sizeof(ret->port), "%s", port);
	return 0;
}

static bool is_local(const struct sockaddr *address)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;

	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static int name_of(int fd, struct listening *listening)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof(address);
	char host[64], port[16];
	bool six;

	if (getsockname(fd, (struct sockaddr *)&address, &size) < 0 ||
	    getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return -EIO;
	six = address.ss_family == AF_INET6;
	snprintf(listening->name, sizeof(listening->name), "%s%s%s:%s", six ? "[" : "", host,
		 six ? "]" : "", port);
	listening->local = is_local((struct sockaddr *)&address);
	return 0;
}

static int bind_to(const struct addrinfo *info)
{
	_cleanup_(closep) int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
	    bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int listen_open(const char *text, struct listening *ret)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *info = NULL;
	struct place place;
	int r, fd;

	if (split(text, &place) < 0) {
		complain("--listen needs an address and a port, e.g. " LISTEN_DEFAULT
			 " or [::1]:" PORT_DEFAULT " (got '%s')",
			 text);
		return -EINVAL;
	}
	r = getaddrinfo(place.host, place.port, &hints, &info);
	if (r != 0) {
		complain("Unknown address '%s': %s", place.host, gai_strerror(r));
		return -EINVAL;
	}
	fd = bind_to(info);
	freeaddrinfo(info);
	if (fd < 0) {
		complain("Cannot listen on %s: %s", text, strerror(-fd));
		return fd;
	}
	ret->fd = fd;
	r = name_of(fd, ret);
	if (r < 0)
		close(fd);
	return r;
}

bool listen_is_local_name(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t size = strlen(names[i]);

		if (strncasecmp(host, names[i], size) == 0 &&
		    (host[size] == '\0' || host[size] == ':'))
			return true;
	}
	return false;
}
