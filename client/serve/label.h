/* label.h: names of the things that an answer to the page has by number. */
#ifndef TS_CLIENT_LABEL_H
#define TS_CLIENT_LABEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/link/link.h"

typedef bool label_wanted(const void *data, uint32_t process);

/* Writes "processes":{"ID":[PID,NAME],…}, of those that lived in the window and are wanted. */
int label_processes(struct link *link, uint64_t since_ns, uint64_t until_ns, label_wanted *wanted,
		    const void *data, FILE *out);
/* Writes "where":…,"stack":[…] and a comma, or nothing if the stack is unknown. */
int label_stack(struct link *link, int64_t stack, size_t frames_max, FILE *out);

#endif
