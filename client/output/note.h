/* note.h: what answers about one process have in common: notes, and the names of records. */
#ifndef TS_CLIENT_NOTE_H
#define TS_CLIENT_NOTE_H

#include <stddef.h>
#include <stdint.h>

/* To standard output: a line each; a member of an object; a value. */
void notes_text(size_t count, char **note);
void notes_json(size_t count, char **note);
void records_json(uint32_t records);

#endif
