/* refuse.h: tells those who wait for a daemon that cannot start why it cannot. */
#ifndef TS_REFUSE_H
#define TS_REFUSE_H

/* Answers who has connected to the listening socket with a sentence, and hangs up; with NULL only
 * hangs up. Nothing is left in the socket's queue that would make systemd start the daemon again.
 */
void refuse_waiting(int listening, const char *sentence);

#endif
