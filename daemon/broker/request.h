/* request.h: what the daemon may ask the broker for, one SEQPACKET message each.
 *
 * Whoever has taken the daemon over asks, too. So a request says nothing in its own words: no path,
 * no program, no cookie; a file is a descriptor, functions are numbers of the library table.
 */
#ifndef TS_BROKER_REQUEST_H
#define TS_BROKER_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/probe.h"

enum probe_way {
	PROBE_WAY_AUTO,
	PROBE_WAY_MULTI, /* one uprobe_multi link for many functions */
	PROBE_WAY_PERF,	 /* one perf event per function */
	PROBE_WAYS
};

enum broker_kind {
	BROKER_LOAD,	  /* the probes' programs: maps */
	BROKER_LINK,	  /* probes on functions of a library: links */
	BROKER_CALIBRATE, /* a probe on the function that calibrate.c calls: a link */
	BROKER_STUB,	  /* a probe on the stub of our library: a link */
	BROKER_FREED,	  /* a probe on where a Python frees code objects: a link */
	BROKER_LOOK,	  /* the programs of native/look.c: a link and a map */
	BROKER_HELD,	  /* the programs of probe/held.c: a link and a map */
	BROKER_HOOKED,	  /* those of probe/hooked.c: two links and a map */
	BROKER_SAMPLE,	  /* the event of native/sample.c: its descriptor */
	BROKER_SAMPLER,	  /* a channel of its own for SAMPLE, whose end comes along: nothing */
	BROKER_MAPPED,	  /* the event of maps/ring.c: its descriptor */
	BROKER_KINDS
};

#define BROKER_SITES_MAX 1024
#define BROKER_LINKS_MAX (2 * BROKER_SITES_MAX)
/* Bytes of a stack in one sample, whose size must fit 16 bits. */
#define BROKER_STACK_MAX  65408
#define BROKER_RING_LEAST 4096
#define BROKER_RING_MOST  (1u << 30)
#define BROKER_CPUS_MAX	  8192

struct broker_site {
	uint64_t offset;   /* in the file */
	uint16_t function; /* its number */
	uint16_t flags;	   /* of its events; of a note its number in this copy */
	uint32_t zero;
	uint64_t semaphore; /* of a note, in the file: counts who looks; 0: none */
};

struct broker_request {
	uint32_t kind;
	uint32_t pid; /* process; of SAMPLE a thread; 0: all processes */
	/* LOAD: bytes of the ring; LINK: epoch; STUB, FREED: offset in the file; MAPPED: CPU */
	uint64_t value;
	uint8_t way, group;
	uint16_t copy;	/* FREED: its place in codes_freed */
	uint32_t sites; /* that follow, ascending by offset */
};

struct broker_message {
	struct broker_request request;
	struct broker_site site[BROKER_SITES_MAX];
};

/* Of LOAD, in this order. */
enum broker_map {
	BROKER_EVENTS,
	BROKER_CHOICES,
	BROKER_MAPPINGS,
	BROKER_PROCESSES,
	BROKER_PYTHONS,
	BROKER_STACKS_SENT,
	BROKER_HITS,
	BROKER_SUMS,
	BROKER_NOTES,
	BROKER_COUNTERS,
	BROKER_LOSERS,
	BROKER_THREADS,
	BROKER_BSS,
	BROKER_MAPS
};

struct broker_programs {
	uint64_t secret; /* of the rules' keys */
	uint8_t way;	 /* MULTI or PERF */
	uint8_t single;	 /* links to one process see all of its threads */
	uint8_t workers; /* how long work waits for the kernel's workers is told */
	uint8_t returns; /* enum trial_result: whether functions may be probed at their return */
	uint8_t returns_error; /* of TRIAL_FAILED */
	uint8_t zero[3];
	/* Of a thread's storage, in bytes: its size, and where these fields are. */
	uint32_t thread_size, thread_depth, thread_call, thread_sp;
};

/* Descriptors come along, SPAWN_FDS a message at most. */
struct broker_answer {
	int32_t result;
	uint32_t more;	 /* 0: the last message */
	uint32_t failed; /* LINK: sites that the kernel refused */
	uint32_t zero;
	struct broker_programs programs;
};

/* Whether a message is a request, as far as that can be told without looking at the files that came
 * along. The request's own size is checked, and `data` need not be aligned. 0 or -EBADMSG. */
int broker_check(const void *data, size_t size, uint32_t files);

#endif
