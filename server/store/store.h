/* The server's store of middle weights. A file holds one weight range and is named by its hash, so a client uploads its
 * weights only once. With auth the name also has the owner's key: XXH3 detects accidental damage, but an attacker can
 * compute other weights with the same hash, which no other client must get. Files are written as `.tmp`, synced and
 * renamed, and hashed again when they are read. On the device's worker. */
#ifndef SL_SERVER_STORE_STORE_H
#define SL_SERVER_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/link/key.h"
#include "server/store/retention.h"

/* Whether the name is that of a file of the store: weights, a checkpoint of a session, or the .tmp file of either. The
 * server never touches other files in the folder. */
bool sl_store_owns(const char *name);
/* Creates the folder, locks it, and removes .tmp files of the store from it. `dir` "": nothing is stored. The lock is
 * held until sl_store_close(*lock) or the end of the process; *lock -1: there is none. CANTCREATE: the folder cannot be
 * made or written to; CONFIG: another user owns it, or every user may write to it; BUSY: another server
 * uses it. */
enum sl_err sl_store_open(const char *dir, int *lock, struct sl_fail *fail) SL_MUST_CHECK;
void sl_store_close(int lock);
/* Reads `count` floats into range. False: the store does not have them, or they are damaged; range is then undefined.
 * `owner` NULL: no auth. */
bool sl_store_get(const char *dir, const struct sl_key *owner, const uint8_t hash[16], float *range, int64_t count);
/* Stores them, if `retention` (NULL: no limits) has room, or makes room by removing older weights. A failure is only
 * logged: the client still has its weights. */
void sl_store_put(const char *dir, struct sl_retention *retention, const struct sl_key *owner, const uint8_t hash[16],
		  const float *range, int64_t count);

#endif
