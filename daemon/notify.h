/* notify.h: communication with systemd: ready, watchdog, passed sockets.
 *
 * Three environment variables and a datagram; libsystemd has no static library, so the bundle could
 * not include it. Without systemd each of these does nothing.
 */
#ifndef TS_NOTIFY_H
#define TS_NOTIFY_H

#include <stdint.h>

/* Before and after the loop, "READY=1" and "STOPPING=1": waits until systemd has room for it. */
void notify_send(const char *state);
/* On the loop, "WATCHDOG=1" and "STATUS=…": lost where it has none. */
void notify_post(const char *state);
/* How often WATCHDOG=1 is expected at least, 0: not at all. */
uint64_t notify_watchdog_ms(void);
/* The listening socket that systemd created under this name, -1: none. */
int notify_listen_fd(const char *name);

#endif
