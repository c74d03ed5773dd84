/* refuse.h: answers clients of a daemon that cannot start. */
#ifndef TS_REFUSE_H
#define TS_REFUSE_H

/* Answers everyone who has connected to the listening socket with a sentence, and hangs up; with
 * NULL only hangs up. Leaves nothing in the socket's queue that would make systemd start the daemon
 * again.
 */
void refuse_waiting(int listening, const char *sentence);

#endif
