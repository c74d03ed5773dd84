/* event.h: perf events other than those under probes. Descriptors, or negative errnos.
 */
#ifndef TS_BROKER_EVENT_H
#define TS_BROKER_EVENT_H

#include <stdint.h>
#include <sys/types.h>

/* A software clock that counts while the thread is on a CPU, and copies its registers and stack. */
int event_sample(uint32_t tid);
/* All executable mappings, forks, programs and ends of processes on a CPU: of the whole host (`pid`
 * -1), or of a process (0: this one) and what it starts. */
int event_mapped(pid_t pid, uint32_t cpu);

#endif
