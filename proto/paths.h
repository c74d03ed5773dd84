/* paths.h: default paths of the daemon and its clients. */
#ifndef TS_PATHS_H
#define TS_PATHS_H

#define TS_PATH_RUN	       "/run/tracesmith"
#define TS_PATH_CONTROL_SOCKET TS_PATH_RUN "/control.sock" /* mode 0660, group TS_GROUP */
#define TS_INJECT_SOCKET_NAME  "inject.sock" /* in the control socket's directory, mode 0666 */
#define TS_PATH_INJECT_SOCKET  TS_PATH_RUN "/" TS_INJECT_SOCKET_NAME
#define TS_PATH_STATE	       "/var/lib/tracesmith"
#define TS_PATH_DATABASE       TS_PATH_STATE "/tracesmith.db"
#define TS_PATH_SETTINGS       "/etc/tracesmith/tracesmithd.conf"

#define TS_GROUP	       "tracesmith"	   /* may use the socket, like root */
#define TS_ENV_SOCKET	       "TRACESMITH_SOCKET" /* the client's control socket */

#define TS_INJECT_LIBRARY      "libtracesmith.so" /* by the programs, or in LIBDIR/tracesmith */
/* For the library in a process that `tsctl run` starts: */
#define TS_ENV_INJECT_SOCKET "TRACESMITH_INJECT_SOCKET"
#define TS_ENV_RECORDS	     "TRACESMITH_RECORDS" /* a number, enum ts_records */
#define TS_ENV_STACKS	     "TRACESMITH_STACKS"  /* a number, enum ts_stacks */
#define TS_ENV_BUDGET	     "TRACESMITH_BUDGET"  /* parts per million */
#define TS_ENV_LIGHT	     "TRACESMITH_LIGHT"	  /* 1: light mode */
#define TS_ENV_DEBUG	     "TRACESMITH_DEBUG"	  /* the library logs to stderr */
/* "DEVICE:INODE" of the file that tsctl's errors go to: what the user is to know is said there. */
#define TS_ENV_STDERR "TRACESMITH_STDERR"
#define TS_FILE_NAME  "%ju:%ju" /* of uintmax_t */

#endif
