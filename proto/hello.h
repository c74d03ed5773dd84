/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hello.h: the messages between the daemon and a library in someone else's process.
 *
 * They go over a SOCK_SEQPACKET Unix socket, one struct per message, its kind first; of a longer
 * message the known part is read, a shorter one ends the connection. The library says hello; the
 * daemon answers with a refusal, or with a welcome and two descriptors: the ring (ring.h) and an
 * eventfd that wakes its reader. Records go through the ring, everything else through here. The end
 * of the connection ends the recording: the daemon then still reads what is in the ring.
 *
 * The kernel tells the daemon who the library is; its own claims do not count.
 */
#ifndef TS_HELLO_H
#define TS_HELLO_H

#include <stdint.h>

#define TS_HELLO_PROTOCOL 1u
#define TS_HELLO_TEXT	  256

enum ts_stacks { TS_STACKS_DEFAULT, TS_STACKS_NONE, TS_STACKS_SAMPLED, TS_STACKS_ALL };

/* Each time CUPTI is taken out of a process (cuptiFinalize), 0.5 to 0.67 MiB of device memory stay
 * in the process until it ends (CUPTI 13.0.1 on an H200, also with nothing enabled); so that is
 * done no more often than this. */
#define TS_CYCLES_MAX  64

#define TS_BUDGET_NONE UINT32_MAX /* no limit, whatever the daemon's settings say */

/* Whether the library reports calls of hot functions itself (light.h). */
enum ts_light_mode {
	TS_LIGHT_NEVER,
	TS_LIGHT_ALONE,	 /* and nothing else: no CUPTI */
	TS_LIGHT_BESIDE, /* and CUPTI's records */
};

/* 0 in a field: the daemon decides. */
struct ts_settings {
	uint32_t records;    /* enum ts_records */
	uint32_t stacks;     /* enum ts_stacks, for launches; taken by the daemon's probes */
	uint32_t budget_ppm; /* share of its speed that recording may take; welcome: 0: no limit */
	uint32_t flush_ms;   /* how often CUPTI hands over finished records */
	uint64_t buffer_bytes; /* maximum that CUPTI may hold */
	uint32_t light;	       /* enum ts_light_mode; a library asks for TS_LIGHT_ALONE only */
	uint32_t cycles;       /* welcome: how often CUPTI was taken out of the process before */
};

enum ts_message {
	/* library to daemon */
	TS_MESSAGE_HELLO = 1,
	TS_MESSAGE_STATE = 2,
	TS_MESSAGE_LIGHT =
		3, /* struct ts_light (light.h); alone, instead of the state COLLECTING */
	TS_MESSAGE_WALKS = 4, /* struct ts_light_walks (light.h) */
	/* daemon to library */
	TS_MESSAGE_WELCOME = 16,
	TS_MESSAGE_REFUSED = 17, /* with a sentence; do not retry */
	TS_MESSAGE_SETTINGS = 18,
	TS_MESSAGE_DETACH = 19, /* stop, give everything back, send GONE and close */
	TS_MESSAGE_WINDOW = 20, /* record, or stop until the next window */
	TS_MESSAGE_STACKS = 21, /* struct ts_light_stacks (light.h) */
	TS_MESSAGE_WALK = 22, /* the kind alone, and the descriptor of a struct ts_walk (walk.h) */
	TS_MESSAGE_MODULES = 23, /* the kind alone: the process has mapped more code */
	TS_MESSAGE_WATCHED = 24, /* the kind alone: its calls are seen from now on */
};

enum ts_hello_how {
	TS_HELLO_RUN = 1, /* loaded by the driver, see CUDA_INJECTION64_PATH */
	TS_HELLO_ATTACH = 2,
};

struct ts_hello {
	uint32_t message; /* TS_MESSAGE_HELLO */
	uint32_t protocol;
	uint32_t how; /* enum ts_hello_how */
	uint32_t reserved;
	struct ts_settings wanted;
	char version[32]; /* of the library */
};

enum ts_library_state {
	TS_LIBRARY_COLLECTING = 1, /* text: which libcupti and version */
	TS_LIBRARY_PAUSED,	   /* text: why, and until when */
	TS_LIBRARY_FAILED,	   /* text: a sentence that says why recording is impossible */
	TS_LIBRARY_GONE, /* everything given back; our last thread ends now; text: what could not be
			  */
};

struct ts_state {
	uint32_t message;    /* TS_MESSAGE_STATE */
	uint32_t state;	     /* enum ts_library_state */
	uint32_t unloadable; /* GONE: 1: nothing refers to the library any more, it can be closed */
	uint32_t reserved;
	char text[TS_HELLO_TEXT];
};

struct ts_welcome {
	uint32_t message; /* TS_MESSAGE_WELCOME, or TS_MESSAGE_SETTINGS */
	uint32_t protocol;
	uint32_t slots; /* of the ring */
	uint32_t reserved;
	struct ts_settings settings;
};

struct ts_refused {
	uint32_t message; /* TS_MESSAGE_REFUSED, or TS_MESSAGE_DETACH without text */
	uint32_t reserved;
	char text[TS_HELLO_TEXT];
};

enum ts_window_how {
	TS_WINDOW_OUT,	/* takes CUPTI out: calls cost nothing, but that has an end (TS_CYCLES_MAX)
			 */
	TS_WINDOW_OPEN, /* records */
	TS_WINDOW_REST, /* switches CUPTI off, if it can: calls cost a part of what they do in a
			   window */
};

/* From the first one on, windows keep the budget, and no records are left out for it. */
struct ts_window {
	uint32_t message; /* TS_MESSAGE_WINDOW */
	uint32_t how;	  /* enum ts_window_how */
	uint64_t at_ns;	  /* when to close it, CLOCK_MONOTONIC; soon */
};

/* What the injector passes to the library's entry point, in the process's own memory. */
struct ts_attach {
	uint32_t size;	/* of this struct */
	int32_t socket; /* connected to the daemon; the library sets it to -1 when it takes it */
	struct ts_settings wanted;
};

/* The library's symbols. The driver calls the first, which returns 1, as expected; the injector
 * calls the second, which returns 0 or a negative errno (-EALREADY: it is connected), and then the
 * socket remains the caller's. Both return at once, after starting a thread. */
#define TS_INJECT_ENTRY	       "InitializeInjection"
#define TS_INJECT_ATTACH_ENTRY "tracesmith_attach" /* int (struct ts_attach *) */

#endif
