/* internal.h: shared by probe.c (programs), reader.c (their ring) and library.c (attaching). */
#ifndef TS_PROBE_INTERNAL_H
#define TS_PROBE_INTERNAL_H

#include "daemon/broker/broker.h"
#include "daemon/probe/backlog.h"
#include "daemon/probe/parked.h"
#include "daemon/probe/probe.h"

/* It needs the types of the former. */
#include "bpf/probe.skel.h"

struct ring_buffer;

struct probe {
	struct probe_config config;
	struct probe_callbacks callbacks;
	void *data;
	struct broker *broker;
	struct held *held;
	struct hooked *hooked;
	struct broker_programs programs;
	int map[BROKER_MAPS];
	struct probe_bpf__bss *bss; /* shared with the programs */
	struct ring_buffer *ring;
	/* The kernel's positions in it, or NULL. */
	const uint64_t *read_to, *written_to;
	struct intake *intake;
	struct intake_lane lane;
	struct backlog backlog;
	struct parking parking;
	uint64_t unkept;    /* records that found no memory in either */
	int wakes_fd;	    /* readable once after a wake-up, whatever is in the ring */
	uv_poll_t readable; /* that */
	void (*closed)(void *data);
	/* Of this turn: records that it may still take, and when it started. */
	uint32_t budget;
	uint64_t now_ns;
	uint64_t heard_ns;		  /* the last turn with a record */
	uint64_t looked_ns, looked_bytes; /* when the ring was last empty, and `bytes` then */
	uint64_t busy_ns;		  /* when much came for the last time */
	uint64_t idle_ns;		  /* since then the programs wake us, 0: they do not */
	uint64_t records, bytes;
	uint32_t mappings; /* how often rules became void */
	uint32_t epoch[PROBE_GROUPS][PROBE_COPIES_MAX];
};

/* reader.c: as callbacks of the lane, of libbpf, and of the intake. */
void probe_give(void *data, const void *record, size_t size);
int probe_record(void *data, void *record, size_t size);
enum intake_state probe_on_turn(void *data, uint64_t now_ns, uint32_t budget);

#endif
