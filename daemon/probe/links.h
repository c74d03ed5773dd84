/* links.h: whose calls are watched, of one group of functions of one copy of a driver library.
 *
 * One link watches all processes until one is to be left out for a time. Then each process that
 * maps the library has a link of its own, which can be closed and opened: a process without a link
 * pays nothing at its calls. When all have been watched whole for a while, one link takes over
 * again. In either exchange the new links are there before the old ones go, and bpf/hit.bpf.h sees
 * to it that each call counts once.
 *
 * On a kernel without links to single processes nobody can be left out alone: while anybody is,
 * nobody is watched.
 *
 * Links are made by the linker and closed by the remover; all else is on the loop.
 */
#ifndef TS_LINKS_H
#define TS_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/base/map.h"
#include "daemon/probe/probe.h"

struct linker;
struct owned_link;
struct remover;

enum links_state {
	LINKS_OPEN,
	LINKS_CLOSED,
	LINKS_CHANGING,
};

struct links;
struct links_callbacks {
	void (*idle)(struct links *links); /* the linker is done with it */
	/* The calls of a process (0: of all) are not seen since then, though they should be. */
	void (*missing)(struct links *links, uint32_t pid, uint64_t since_ns);
	/* Now they are, or it is gone. */
	void (*seen)(struct links *links, uint32_t pid);
	/* Ask links_wait_ns() again. */
	void (*stirred)(struct links *links);
};

struct links {
	struct linker *linker;
	struct remover *remover;
	enum probe_group group;
	bool may_single;	       /* the kernel has links to single processes */
	struct probe_library *library; /* NULL: not attached yet */
	int fd;			       /* the library's file, borrowed */
	struct list members;
	struct map by_pid;
	struct owned_link *wide;    /* the link for all processes, NULL: none */
	struct owned_link *closing; /* the last one, until it is off */
	bool single;		    /* a link for each process */
	bool busy;		    /* the linker makes links */
	uint64_t off_ns;	    /* nobody is watched since then, 0: not so */
	uint64_t retry_ns;	    /* to get back from that, not before */
	uint64_t single_ns;	    /* until then all were watched, if they are not now */
	uint64_t wide_ns;	    /* since then all are, if they are now */
	uint64_t looked_ns;	    /* when all that have a link had a first thread */
	uint64_t whole_ns;	    /* since then all are watched whole, 0: not all */
	const struct links_callbacks *callbacks;
};

/* -ENOMEM */
int links_init(struct links *links, struct linker *linker, struct remover *remover,
	       enum probe_group group, bool may_single, int fd,
	       const struct links_callbacks *callbacks);
/* The library has its probes now. */
void links_start(struct links *links, struct probe_library *library);
/* Not while it is busy. The remover takes its links off. */
void links_release(struct links *links, struct remover *remover);

struct links_member {
	uint32_t pid;
	bool out;	    /* it is left out from the start */
	uint64_t mapped_ns; /* since then it maps the library; 0: not known */
	uint64_t from_ns;   /* no link is made for it alone before that */
};

/* A process maps the library; -ENOMEM. */
int links_add(struct links *links, const struct links_member *added);
void links_remove(struct links *links, uint32_t pid);
/* It runs another program now, of which a link of its own may see nothing. */
void links_renew(struct links *links, uint32_t pid);

/* Without effect on a process that does not map it. `open`: to be watched now; `whole`: not only in
 * windows. */
void links_watch(struct links *links, uint32_t pid, bool open, bool whole);
/* The same, whatever is wanted of it otherwise. */
void links_leave_out(struct links *links, uint32_t pid, bool out);
enum links_state links_state(const struct links *links, uint32_t pid);
/* Whether one link has watched all since then; else a process without a link of its own was not. */
bool links_see_all(const struct links *links, uint64_t since_ns);
bool links_has(const struct links *links, uint32_t pid);
/* Not watched because of its inline hook. */
bool links_is_hooked(const struct links *links, uint32_t pid);
/* Such a one, 0: none. */
uint32_t links_hooked(const struct links *links);
/* Nobody maps the library, and one link watches all who will. */
bool links_at_rest(const struct links *links);
void links_tick(struct links *links, uint64_t now_ns);
/* How long until there may be something to do in a tick; UINT64_MAX: it needs none. */
uint64_t links_wait_ns(const struct links *links, uint64_t now_ns);

#endif
