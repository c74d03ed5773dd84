/* Refuse: the end of a failed start. systemd starts the daemon for as long as somebody waits in the
 * queue of its socket, so nobody may be left there. */
#include "daemon/api/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "core/base/cleanup.h"
#include "proto/control.pb-c.h"
#include "proto/frame.h"

static void refuse(int fd, const char *sentence)
{
	Tracesmith__V1__Error error = TRACESMITH__V1__ERROR__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	_cleanup_(freep) uint8_t *data = NULL;
	size_t size;

	error.code = TRACESMITH__V1__ERROR__CODE__UNAVAILABLE;
	error.message = (char *)sentence;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_ERROR;
	reply.error = &error;
	if (ts_frame_pack(&reply.base, TS_FRAME_REPLY_MAX, &data, &size) == 0)
		send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void refuse_waiting(int listening, const char *sentence)
{
	int flags = listening < 0 ? -1 : fcntl(listening, F_GETFL);

	if (flags < 0 || fcntl(listening, F_SETFL, flags | O_NONBLOCK) < 0)
		return;
	for (;;) {
		_cleanup_(closep) int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			return;
		if (fd >= 0 && sentence)
			refuse(fd, sentence);
	}
}
