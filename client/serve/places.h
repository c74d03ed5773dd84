/* places.h: the connections that the server has at a time. One more takes the place of another that
 * has not shown the token. Any thread may call any of these. */
#ifndef TS_CLIENT_PLACES_H
#define TS_CLIENT_PLACES_H

#include <sys/socket.h>

#define PLACES 128
/* With those that are being shut, which end as soon as their threads see it. */
#define PLACES_AND_SHUT (2 * PLACES)

struct places;
struct place;

/* NULL: out of memory. */
struct places *places_new(void);
/* Takes NULL. No place is taken any more. */
void places_free(struct places *places);

/* A place for a connection, whose half request starts now. The descriptor stays the caller's. If
 * too many are taken, the peer that has most half requests loses its oldest; if there is none, the
 * new connection is shut. NULL: none is left, or no descriptor for it. */
struct place *places_take(struct places *places, int fd, const struct sockaddr *peer);
/* These take NULL, too. Its request has shown the token: it keeps its place. */
void places_keep(struct places *places, struct place *place);
/* Its request has been answered: its next one is half again. */
void places_start(struct places *places, struct place *place);
void places_give_back(struct places *places, struct place *place);

#endif
