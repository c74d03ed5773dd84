/* Places: who holds a place, and who loses it. A thread that waits for the rest of a request is
 * ended by shutting its connection. */
#include "client/serve/places.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum place_state {
	PLACE_FREE,
	PLACE_HALF,
	PLACE_KEPT,
	PLACE_SHUT,
};

/* An IPv4 address, or the part of an IPv6 one that is of a single network: its hosts choose the
 * rest. This host is one peer, whatever address of its own it comes from. */
struct peer {
	uint8_t bytes[8];
	uint8_t family;
};

struct place {
	enum place_state state;
	int fd; /* a duplicate: the server closes its own before it says so */
	struct peer peer;
	uint64_t started; /* when its half request started: the value of `starts` */
};

struct places {
	pthread_mutex_t lock;
	uint64_t starts;
	unsigned int taken; /* and not shut */
	struct place place[PLACES_AND_SHUT];
};

struct places *places_new(void)
{
	struct places *places = calloc(1, sizeof(*places));

	if (places)
		pthread_mutex_init(&places->lock, NULL);
	return places;
}

void places_free(struct places *places)
{
	if (!places)
		return;
	pthread_mutex_destroy(&places->lock);
	free(places);
}

static struct peer peer_of_four(const uint8_t address[4])
{
	struct peer peer = { .family = AF_INET };

	memcpy(peer.bytes, address, *address == IN_LOOPBACKNET ? 1 : 4);
	return peer;
}

static struct peer peer_of(const struct sockaddr *address)
{
	struct peer peer = { .family = (uint8_t)address->sa_family };
	const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;

	if (address->sa_family == AF_INET)
		return peer_of_four(
			(const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr);
	if (address->sa_family != AF_INET6)
		return peer;
	if (IN6_IS_ADDR_V4MAPPED(six))
		return peer_of_four(six->s6_addr + 12);
	memcpy(peer.bytes, six->s6_addr, sizeof(peer.bytes));
	return peer;
}

static bool same_peer(const struct place *a, const struct place *b)
{
	return memcmp(&a->peer, &b->peer, sizeof(a->peer)) == 0;
}

static unsigned int halves(const struct places *places, const struct place *of)
{
	unsigned int count = 0;

	for (size_t i = 0; i < PLACES_AND_SHUT; i++)
		count += places->place[i].state == PLACE_HALF && same_peer(&places->place[i], of);
	return count;
}

/* Data has arrived that its thread has not read yet. */
static bool is_unread(const struct place *place)
{
	int bytes = 0;

	return ioctl(place->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

struct standing {
	struct place *place;
	bool unread;
	unsigned int count; /* half requests of its peer */
};

static bool outstays(const struct standing *a, const struct standing *b)
{
	if (a->unread != b->unread)
		return a->unread;
	if (a->count != b->count)
		return a->count < b->count;
	return a->place->started > b->place->started;
}

/* The oldest of the peer with most; a new connection is the newest. Those whose thread has not got
 * to run come last; each is looked at once, as they change meanwhile. */
static struct place *find_loser(struct places *places)
{
	struct standing loser = { 0 };

	for (size_t i = 0; i < PLACES_AND_SHUT; i++) {
		struct standing next = { .place = &places->place[i] };

		if (next.place->state != PLACE_HALF)
			continue;
		next.unread = is_unread(next.place);
		next.count = halves(places, next.place);
		if (!loser.place || outstays(&loser, &next))
			loser = next;
	}
	return loser.place;
}

static void shut(struct places *places, struct place *place)
{
	shutdown(place->fd, SHUT_RDWR);
	place->state = PLACE_SHUT;
	places->taken--;
}

static struct place *take(struct places *places, int fd, const struct sockaddr *peer)
{
	struct place *place = places->place;

	while (place < places->place + PLACES_AND_SHUT && place->state != PLACE_FREE)
		place++;
	if (place == places->place + PLACES_AND_SHUT)
		return NULL;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	*place = (struct place){ PLACE_HALF, fd, peer_of(peer), places->starts++ };
	if (++places->taken > PLACES)
		shut(places, find_loser(places));
	return place;
}

struct place *places_take(struct places *places, int fd, const struct sockaddr *peer)
{
	struct place *place;

	pthread_mutex_lock(&places->lock);
	place = take(places, fd, peer);
	pthread_mutex_unlock(&places->lock);
	return place;
}

void places_keep(struct places *places, struct place *place)
{
	if (!place)
		return;
	pthread_mutex_lock(&places->lock);
	if (place->state == PLACE_HALF)
		place->state = PLACE_KEPT;
	pthread_mutex_unlock(&places->lock);
}

void places_start(struct places *places, struct place *place)
{
	if (!place)
		return;
	pthread_mutex_lock(&places->lock);
	if (place->state == PLACE_KEPT) {
		place->state = PLACE_HALF;
		place->started = places->starts++;
	}
	pthread_mutex_unlock(&places->lock);
}

void places_give_back(struct places *places, struct place *place)
{
	if (!place)
		return;
	pthread_mutex_lock(&places->lock);
	close(place->fd);
	places->taken -= place->state != PLACE_SHUT;
	place->state = PLACE_FREE;
	pthread_mutex_unlock(&places->lock);
}
