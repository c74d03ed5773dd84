/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hello.h: what a library in someone else's process and the daemon say to each other.
 *
 * On a SOCK_SEQPACKET Unix socket, a struct a message, its kind first; a longer message than known
 * is read as far as it is known, a shorter one ends the connection. The library says hello, the
 * daemon answers with a welcome and, beside it, two descriptors: the ring (ring.h) and an eventfd
 * that wakes its reader; or with a refusal. Records go through the ring, the rest through here. The
 * end of the connection is the end of collection: the daemon then still reads what is in the ring.
 *
 * Who the library is the daemon knows from the kernel, never from what it says.
 */
#ifndef TS_HELLO_H
#define TS_HELLO_H

#include <stdint.h>

#define TS_HELLO_PROTOCOL 1u
#define TS_HELLO_TEXT	  256

enum ts_stacks { TS_STACKS_DEFAULT, TS_STACKS_NONE, TS_STACKS_SAMPLED, TS_STACKS_ALL };

/* 0 in a field: as the daemon thinks best. */
struct ts_settings {
	uint32_t records;      /* enum ts_records */
	uint32_t stacks;       /* enum ts_stacks, of launches; taken by the daemon's probes */
	uint32_t budget_ppm;   /* share of a thread's time that collecting may take, 0: no bound */
	uint32_t flush_ms;     /* how often CUPTI hands over what is finished */
	uint64_t buffer_bytes; /* that CUPTI may hold at most */
};

enum ts_message {
	/* library to daemon */
	TS_MESSAGE_HELLO = 1,
	TS_MESSAGE_STATE = 2,
	/* daemon to library */
	TS_MESSAGE_WELCOME = 16,
	TS_MESSAGE_REFUSED = 17, /* with a sentence; do not come again */
	TS_MESSAGE_SETTINGS = 18,
	TS_MESSAGE_DETACH = 19, /* stop, give all back, say GONE and close */
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
	TS_LIBRARY_COLLECTING = 1, /* text: which libcupti, of which version */
	TS_LIBRARY_PAUSED,	   /* text: for whom */
	TS_LIBRARY_FAILED,	   /* text: a sentence that says why nothing can be collected */
	TS_LIBRARY_GONE, /* all given back; our last thread ends now; text: what could not be */
};

struct ts_state {
	uint32_t message;    /* TS_MESSAGE_STATE */
	uint32_t state;	     /* enum ts_library_state */
	uint32_t unloadable; /* GONE: 1: nothing refers to the library any more, dlclose it */
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
	uint32_t message; /* TS_MESSAGE_REFUSED, or TS_MESSAGE_DETACH without a text */
	uint32_t reserved;
	char text[TS_HELLO_TEXT];
};

/* What the one who injects hands to the library's entry point, in the process's own memory. */
struct ts_attach {
	uint32_t size;	/* of this struct */
	int32_t socket; /* connected to the daemon; the library's from now on */
	struct ts_settings wanted;
};

/* The library's symbols: the first is called by the driver and returns 1, as it expects; the second
 * by who injects: 0, or a negative errno (-EALREADY: it is connected) and the socket remains the
 * caller's. Both return at once, after starting a thread. */
#define TS_INJECT_ENTRY	       "InitializeInjection"
#define TS_INJECT_ATTACH_ENTRY "tracesmith_attach" /* int (const struct ts_attach *) */

#endif
