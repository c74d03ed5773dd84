/* notify.h: communication with systemd: ready, watchdog, passed sockets.
 *
 * Three environment variables and a datagram; libsystemd has no static library, so the bundle could
 * not include it. Without systemd each of these does nothing.
 */
#ifndef TS_NOTIFY_H
#define TS_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=…", "RELOADING=1\nMONOTONIC_USEC=…" */
void notify_send(const char *state);
/* How often WATCHDOG=1 is expected at least, 0: not at all. */
uint64_t notify_watchdog_ms(void);
/* The listening socket that systemd created under this name, -1: none. */
int notify_listen_fd(const char *name);

#endif
