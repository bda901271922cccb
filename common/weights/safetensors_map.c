/* Mapped files. If one becomes shorter, reading it raises SIGBUS. Nothing can be computed without these weights, so
 * the process says which file it was, and ends. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/weights/safetensors_impl.h"

enum { MAPS_MOST = 512 /* files that the handler can name */ };

static const struct sl_st_file *_Atomic mapped[MAPS_MOST];

static void say(const char *text)
{
	(void)!write(STDERR_FILENO, text, strlen(text));
}

/* Calls only what a signal handler may call. */
static void on_sigbus(int number, siginfo_t *info, void *context)
{
	const char *at = info->si_addr;

	for (int i = 0; i < MAPS_MOST; i++) {
		const struct sl_st_file *f = atomic_load(&mapped[i]);

		if (!f || at < (const char *)f->map || at >= (const char *)f->map + f->map_bytes)
			continue;
		say(f->name);
		say(": the file became shorter while its weights were in use, or its disk failed: the run cannot go "
		    "on without them; put the file back, and go on with --resume\n");
		_exit(sl_err_exit_status(SL_ERR_IO));
	}
	signal(number, SIG_DFL);
	raise(number);
}

static enum sl_err map_file(struct sl_st_file *f, struct sl_fail *fail)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
	const struct sl_st_file *none;
	struct stat st;
	void *map;

	if (fstat(f->fd, &st) < 0)
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", f->name, strerror(errno));
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, f->fd, 0);
	if (map == MAP_FAILED)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: it cannot be mapped: %s", f->name, strerror(errno));
	f->map = map;
	f->map_bytes = (size_t)st.st_size;
	for (int i = 0; i < MAPS_MOST; i++) {
		none = NULL;
		if (atomic_compare_exchange_strong(&mapped[i], &none, f))
			break;
	}
	sigaction(SIGBUS, &action, NULL);
	return SL_OK;
}

void sl_st_unmap(struct sl_st_file *f)
{
	for (int i = 0; i < MAPS_MOST && f->map; i++)
		if (atomic_load(&mapped[i]) == f)
			atomic_store(&mapped[i], NULL);
	if (f->map)
		munmap(f->map, f->map_bytes);
	f->map = NULL;
}

uint64_t sl_st_place(const struct sl_st_file *file, const struct sl_st_tensor *t)
{
	return sl_st_holder(file, t)->data_start + t->offset;
}

enum sl_err sl_st_map(const struct sl_st_file *file, const struct sl_st_tensor *t, const void **out,
		      struct sl_fail *fail)
{
	struct sl_st_file *f = sl_st_holder(file, t);
	enum sl_err err = f->map ? SL_OK : map_file(f, fail);

	if (!err && f->data_start + t->offset + t->bytes > f->map_bytes)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: truncated", f->name);
	if (!err)
		*out = (const char *)f->map + f->data_start + t->offset;
	return err;
}
