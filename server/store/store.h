/* The server's store of middle weights. A file holds one weight range and is named by its hash, so a client uploads its
 * weights once. With auth the name also has the owner's key: XXH3 finds faults, but an attacker can compute other
 * weights with the same hash, and no other client must get those. Files are written as `.tmp`, synced and renamed. What
 * is read is hashed again. On the device's worker. */
#ifndef SL_SERVER_STORE_STORE_H
#define SL_SERVER_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/link/key.h"
#include "server/store/tidy.h"

/* A file of the store, by its name: weights by their hash, checkpoints of sessions, and what was left of either half
 * written. All else in the folder is somebody else's. */
bool sl_store_owns(const char *name);
/* `dir` "": nothing is kept. Creates the folder, CANTCREATE where that fails; CONFIG where another user owns it or
 * every user may write to it; BUSY where another server that runs has
 * it; removes its own .tmp files from it. It is this server's until `lock` (-1: there is none) is given back, or the
 * process ends. */
enum sl_err sl_store_open(const char *dir, int *lock, struct sl_fail *fail) SL_MUST_CHECK;
void sl_store_close(int lock);
/* Reads `count` floats into range; false where the store does not hold them whole: range may then be anything. `owner`
 * NULL: no auth. */
bool sl_store_get(const char *dir, const struct sl_key *owner, const uint8_t hash[16], float *range, int64_t count);
/* Keeps them, where `tidy` (NULL: no limits) has room, or makes some by removing older weights. A failure is logged and
 * nothing worse: the client still has its weights. */
void sl_store_put(const char *dir, struct sl_tidy *tidy, const struct sl_key *owner, const uint8_t hash[16],
		  const float *range, int64_t count);

#endif
