/* api.h: answers the clients of control.sock.
 *
 * Lives on the loop. Queries and exports run in the uv thread pool, each on a read-only connection
 * of its own; a reader that is slow makes its own query wait and nobody else. No peer can make the
 * daemon hold more than limits.h says.
 */
#ifndef TS_API_H
#define TS_API_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct status_builder;

struct api_config {
	int fd;		      /* listening socket handed over by systemd, taken over; -1: none */
	const char *path;     /* else a socket is made here */
	const char *group;    /* whose members may connect beside root, NULL: nobody else */
	const char *database; /* path, for readers */
	const char *boot_id;
	int64_t wall_offset_ns;
	/* 0: as in limits.h. For tests. */
	unsigned int half_ms, stall_ms;
};

struct api_callbacks {
	/* Adds what `tsctl status` shows. Called on the loop. */
	void (*status)(void *data, struct status_builder *builder);
};

/* Asks for a pool with room for its queries (UV_THREADPOOL_SIZE, where it is not set), so call it
 * before anything uses the pool. -EADDRINUSE: another daemon answers on that path. */
int api_new(uv_loop_t *loop, const struct api_config *config, const struct api_callbacks *callbacks,
	    void *data, struct api **ret);

/* Refuses new clients, cancels queries, and calls `closed` when all is freed. */
void api_close(struct api *api, void (*closed)(void *data));

/* A line of the status: text as a person reads it; with `status_number`, its value in base units
 * as well. `warning`: something to look at. */
void status_text(struct status_builder *builder, const char *section, const char *name,
		 bool warning, const char *format, ...) __attribute__((format(printf, 5, 6)));
void status_number(struct status_builder *builder, const char *section, const char *name,
		   bool warning, int64_t number, const char *format, ...)
	__attribute__((format(printf, 6, 7)));

#endif
